-- unack2retry: move messages whose lease or backoff has ended to retry, or to dead if they have no retries left.
--! keys unack retry count dead garbage attempts reason stats running limits wake
--! args limit keep_dead only_backoffs
--! use clock ends leave
--
-- limit: most ids to move
-- keep_dead: '1': dead letters are kept; '0': they go to garbage
-- only_backoffs: '1': only messages whose backoff has ended, of the first 200 in unack; ended leases stay
--
-- Only this script spends a retry. The count is written directly before the ids leave unack: a call that Redis refuses
-- before that has spent none. If attempts already has the end of this lease, it was such a call that wrote it.
-- Returns {number moved, us until the next end (-1: none), ids moved to retry, ids without retries left}, ids joined by
-- ' '.

local only_backoffs = ARGV.only_backoffs == '1'

-- us until the next lease or backoff ends; -1: there is none.
local function wait()
  -- With only_backoffs ended leases stay, so they are not next.
  local from = only_backoffs and string.format('(%.6f', now / 1000000) or '-inf'
  local head = redis.call('ZRANGEBYSCORE', unack, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return head[2] and math.max(0, end_of(head[2]) - now) or -1
end

-- Read the ids whose lease or backoff has ended, and what is stored of them.
local limit = tonumber(ARGV.limit)
local searched = only_backoffs and 200 or limit
local ended = redis.call('ZRANGEBYSCORE', unack, '-inf', now / 1000000, 'WITHSCORES', 'LIMIT', 0, searched)
local ids, ends = {}, {}
local leases, positions = {}, {}  -- ids whose lease, not backoff, has ended, and their positions in ids
for i = 1, #ended, 2 do
  local id = ended[i]
  local last = end_of(ended[i + 1])
  if #ids < limit and (is_backoff(last) or not only_backoffs) then
    ids[#ids + 1] = id
    ends[#ends + 1] = last
    if last % 1000 ~= 0 then  -- a lease of this library: see nack
      leases[#leases + 1] = id
      positions[#positions + 1] = #ids
    end
  end
end
if #ids == 0 then return {0, wait(), '', ''} end
local counts = redis.call('HMGET', count, unpack(ids))
local before = redis.call('HLEN', attempts) > 0 and redis.call('HMGET', attempts, unpack(ids)) or {}
local in_dead = redis.call('ZCARD', dead) > 0 and redis.call('ZMSCORE', dead, unpack(ids)) or {}
local has_reasons = redis.call('HLEN', reason) > 0
redis.call('LLEN', retry)
redis.call('SCARD', garbage)
local function is_repeated(i)  -- a refused call has written the end
  return before[i] and string.match(before[i], ' (%d+)$') == string.format('%.0f', ends[i])
end

-- The reason of a message whose lease has ended says how often in a row that happened.
local old_reasons = has_reasons and #leases > 0 and redis.call('HMGET', reason, unpack(leases)) or {}
local lease_ended = {}  -- id -> reason
for i, id in ipairs(leases) do
  local times = math.min(string.match(old_reasons[i] or '', '^lease ended (%d+) times?$') or 0, 1e9)
  if times == 0 or not is_repeated(positions[i]) then times = times + 1 end
  lease_ended[id] = string.format('lease ended %d time%s', times, times == 1 and '' or 's')
end

-- Decide for each id: retry, dead or garbage.
local died_at = string.format('%.6f', now / 1000000)
local retried, counted, died, dead_scores, finished = {}, {}, {}, {}, {}
local delivered, reasons = {}, {}
local foreign = 0
for i, id in ipairs(ids) do
  local alive = counts[i] and #id == 36  -- else it is no id: see ready2unack
  if counts[i] and not alive then foreign = foreign + 1 end
  if not alive and not in_dead[i] then
    finished[#finished + 1] = id  -- cancelled while it was held
  elseif not alive and ARGV.keep_dead == '1' and is_repeated(i) then
    died[#died + 1] = id  -- it is in dead, but no answer has named it
  elseif alive then
    local retries = math.min(string.match(counts[i], '^%d+$') or 0, 2147483647)
    local deliveries = before[i] and string.match(before[i], '^[1-9]%d*') or '1'
    delivered[#delivered + 1] = id
    delivered[#delivered + 1] = string.format('%s %.0f', deliveries, ends[i])
    if lease_ended[id] then
      reasons[#reasons + 1] = id
      reasons[#reasons + 1] = lease_ended[id]
    end
    if retries >= 1 then
      retried[#retried + 1] = id
      counted[#counted + 1] = id
      counted[#counted + 1] = string.format('%.0f', retries - 1)
    else
      died[#died + 1] = id
      dead_scores[#dead_scores + 1] = died_at
      dead_scores[#dead_scores + 1] = id
    end
  end
end

-- Write: the new place first.
redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
if #delivered > 0 then redis.call('HSET', attempts, unpack(delivered)) end
if #reasons > 0 then redis.call('HSET', reason, unpack(reasons)) end
if #retried > 0 then redis.call('LPUSH', retry, unpack(retried)) end
if #died > 0 then
  if #dead_scores > 0 and ARGV.keep_dead == '1' then
    redis.call('ZADD', dead, unpack(dead_scores))
  elseif ARGV.keep_dead ~= '1' then
    for _, id in ipairs(died) do finished[#finished + 1] = id end
  end
  redis.call('HDEL', count, unpack(died))  --! check dead_letter_has_no_retries
end
if #finished > 0 then
  redis.call('SADD', garbage, unpack(finished))  --! check finished_message_goes_to_garbage
  redis.call('HDEL', attempts, unpack(finished))  --! check finished_message_has_no_attempts
  redis.call('HDEL', reason, unpack(finished))  --! check finished_message_has_no_reason
end
if #counted > 0 then redis.call('HSET', count, unpack(counted)) end
redis.call('ZREM', unack, unpack(ids))
leave(ids)  --! check ended_lease_frees_its_place
if #retried > 0 then redis.pcall('HINCRBY', stats, 'retried', #retried) end
if #died > 0 then redis.pcall('HINCRBY', stats, 'dead', #died) end
if foreign > 0 then redis.pcall('HINCRBY', stats, 'foreign', foreign) end
return {#ids, wait(), table.concat(retried, ' '), table.concat(died, ' ')}
