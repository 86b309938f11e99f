-- unack2retry: take back messages whose lease or backoff has ended: to retry, or given up when no retries are left.
--
-- KEYS[1] unack     zset  id -> end of lease
-- KEYS[2] retry     list  pushed left, taken right
-- KEYS[3] retry:cnt hash  id -> retries left
-- KEYS[4] dead      zset  id -> when it was given up
-- KEYS[5] garbage   set
-- KEYS[6] attempts  hash  id -> '<deliveries> <end of the last lease in us>'
-- KEYS[7] reason    hash  id -> why the last delivery failed
-- KEYS[8] stats     hash
-- ARGV[1] limit     most ids to move
-- ARGV[2] '1': dead letters are kept; '0': they go to garbage
--
-- Here, and only here, a retry is spent.
-- Returns {number moved, us until the next lease ends (-1: none), ids to retry, ids given up}, ids joined by ' '.
local unack, retry, count, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local garbage, attempts, reason, stats = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function wait()
  local head = redis.call('ZRANGE', unack, 0, 0, 'WITHSCORES')
  return head[2] and math.max(0, math.floor(head[2] * 1000000 + 0.5) - now) or -1
end

local over = redis.call('ZRANGEBYSCORE', unack, '-inf', now / 1000000, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
if #over == 0 then return {0, wait(), '', ''} end
local ids, ends, ran_out = {}, {}, {}
for i = 1, #over, 2 do
  local id, last = over[i], math.floor(over[i + 1] * 1000000 + 0.5)
  ids[#ids + 1], ends[#ends + 1] = id, last
  if last % 1000 ~= 0 then ran_out[#ran_out + 1] = id end  -- the ends of nacks and of Go workers are whole milliseconds
end
local counts = redis.call('HMGET', count, unpack(ids))
local before = redis.call('HLEN', attempts) > 0 and redis.call('HMGET', attempts, unpack(ids)) or {}
local given_up = redis.call('ZCARD', dead) > 0 and redis.call('ZMSCORE', dead, unpack(ids)) or {}
local some_reasons = redis.call('HLEN', reason) > 0
redis.call('LLEN', retry)
redis.call('SCARD', garbage)
redis.call('HLEN', stats)

-- A lease that ran out has no reason yet, but how often it did is told.
local said, lease_ended = some_reasons and #ran_out > 0 and redis.call('HMGET', reason, unpack(ran_out)) or {}, {}
for i, id in ipairs(ran_out) do
  local times = string.match(said[i] or '', '^lease ended (%d+) times?$') or 0
  lease_ended[id] = string.format('lease ended %d time%s', times + 1, times == 0 and '' or 's')
end

local given_up_at = string.format('%.6f', now / 1000000)
local again, lost, finished, counted, delivered, scores, reasons = {}, {}, {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  if not counts[i] and not given_up[i] then
    finished[#finished + 1] = id  -- cancelled while it was held
  elseif counts[i] then
    local retries = tonumber(string.match(counts[i], '^%d+$') or 0)
    delivered[#delivered + 1] = id
    delivered[#delivered + 1] = string.format('%s %.0f', before[i] and string.match(before[i], '^%d+') or '1', ends[i])
    if lease_ended[id] then
      reasons[#reasons + 1] = id
      reasons[#reasons + 1] = lease_ended[id]
    end
    if retries >= 1 then
      again[#again + 1] = id
      counted[#counted + 1] = id
      counted[#counted + 1] = string.format('%.0f', retries - 1)
    else
      lost[#lost + 1] = id
      scores[#scores + 1] = given_up_at
      scores[#scores + 1] = id
    end
  end
end

redis.call('ZREM', unack, '')  -- lets the rest pass when Redis is out of memory
if #delivered > 0 then redis.call('HSET', attempts, unpack(delivered)) end
if #reasons > 0 then redis.call('HSET', reason, unpack(reasons)) end
if #again > 0 then
  redis.call('LPUSH', retry, unpack(again))
  redis.call('HSET', count, unpack(counted))
end
if #lost > 0 then
  if ARGV[2] == '1' then
    redis.call('ZADD', dead, unpack(scores))
  else
    for _, id in ipairs(lost) do finished[#finished + 1] = id end
  end
  redis.call('HDEL', count, unpack(lost))
end
if #finished > 0 then
  redis.call('SADD', garbage, unpack(finished))
  redis.call('HDEL', attempts, unpack(finished))
  redis.call('HDEL', reason, unpack(finished))
end
redis.call('ZREM', unack, unpack(ids))
if #again > 0 then redis.call('HINCRBY', stats, 'retried', #again) end
if #lost > 0 then redis.call('HINCRBY', stats, 'dead', #lost) end
return {#ids, wait(), table.concat(again, ' '), table.concat(lost, ' ')}
