-- send: store new messages, all with the same due time, retries and TTL.
--
-- KEYS[1] pending   zset  id -> due time
-- KEYS[2] ready     list  due ids; pushed left, taken right
-- KEYS[3] retry:cnt hash  id -> retries left
-- KEYS[4] garbage   set    KEYS[5] unack zset    KEYS[6] dead zset
-- KEYS[7] attempts  hash   KEYS[8] reason hash   KEYS[9] stats hash   KEYS[10] wake zset
-- KEYS[11...]       body of each message; the last 36 characters are its id
-- ARGV[1] '1': the ids were just made and never sent, so none can exist; '0': look first
-- ARGV[2] delay in ms, or ''   ARGV[3] due time in ms since 1970, used when there is no delay
-- ARGV[4] retries
-- ARGV[5] TTL in ms after the due time, '0' for none
-- ARGV[6...] payload of each message
--
-- Returns the number of messages if all are new, else a string of '1' (created) and '0' (existed), one a message.
local pending, ready, count, garbage, unack = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, attempts, reason, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local wake, messages, ttl = KEYS[10], #KEYS - 10, tonumber(ARGV[5])

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local due = ARGV[2] ~= '' and math.ceil(now + ARGV[2]) or tonumber(ARGV[3])
local later = ARGV[2] ~= '' and tonumber(ARGV[2]) > 0 or ARGV[2] == '' and due > now

-- A key of a wrong type must stop us here, not half-way.
redis.call('ZCARD', pending)
redis.call('LLEN', ready)
redis.call('HLEN', stats)

local ids = {}
for i = 1, messages do ids[i] = string.sub(KEYS[10 + i], -36) end

local alive, created = {}, messages
if ARGV[1] ~= '1' then
  local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
  local counts = redis.call('HMGET', count, unpack(ids))
  local function has_place(id)
    return redis.call('ZSCORE', unack, id) or redis.call('ZSCORE', pending, id) or redis.call('ZSCORE', dead, id)
  end
  local new, seen = {}, {}
  for i, id in ipairs(ids) do
    -- A body alone is what a Go worker left behind: nobody would ever deliver it.
    local body = finished[i] == 0 and redis.call('EXISTS', KEYS[10 + i]) == 1
    if seen[id] or (body and (counts[i] or has_place(id))) then
      alive[i] = true
    else
      seen[id], new[#new + 1] = true, id
    end
  end
  created = #new
  if created == 0 then return string.rep('0', messages) end
  redis.call('ZCARD', unack)
  redis.call('ZCARD', dead)
  redis.call('HLEN', attempts)
  redis.call('HLEN', reason)
  ids = new
end

local bodies, counts, scores = {}, {}, {}
local score = string.format('%.3f', due / 1000)  -- a number would be printed anew for each
for i = 1, messages do
  if not alive[i] then bodies[#bodies + 1], bodies[#bodies + 2] = KEYS[10 + i], ARGV[5 + i] end
end
for i = 1, #ids do
  local id = ids[i]
  counts[2 * i - 1], counts[2 * i] = id, ARGV[4]
  scores[2 * i - 1], scores[2 * i] = score, id
end
redis.call('HSET', count, unpack(counts))  -- first: refused whole when Redis is out of memory
if ARGV[1] ~= '1' then
  -- What an earlier life of these ids may have left behind, whose body is gone or waits to be deleted.
  redis.call('ZREM', pending, unpack(ids))
  redis.call('ZREM', unack, unpack(ids))
  redis.call('ZREM', dead, unpack(ids))
  redis.call('HDEL', attempts, unpack(ids))
  redis.call('HDEL', reason, unpack(ids))
end
if later then
  redis.call('ZADD', pending, unpack(scores))
else
  redis.call('LPUSH', ready, unpack(ids))
end
redis.call('MSET', unpack(bodies))  -- last: with its body a message exists, and to send it again changes nothing
if ARGV[1] ~= '1' then redis.call('SREM', garbage, unpack(ids)) end  -- until now to send it again began anew
if ttl > 0 then
  local life = math.max(1, math.ceil(due - now) + ttl)
  for i = 1, #bodies, 2 do redis.call('PEXPIRE', bodies[i], life) end
end
redis.call('HINCRBY', stats, 'sent', created)

-- A hint, which must fail nothing: what is due now, or before all else that is pending, is worth a look.
local head = later and redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')
if not later or tonumber(head[2]) == due / 1000 then
  redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w')
end

if created == messages then return created end
local answer = {}
for i = 1, messages do answer[i] = alive[i] and '0' or '1' end
return table.concat(answer)
