-- ready2unack: lease due messages to a consumer.
--
-- KEYS[1] ready     list  taken from the right
-- KEYS[2] retry     list  taken from the right
-- KEYS[3] unack     zset  id -> end of lease
-- KEYS[4] pending   zset
-- KEYS[5] dead      zset
-- KEYS[6] retry:cnt hash  id -> retries left
-- KEYS[7] attempts  hash  id -> '<deliveries> <end of the last lease in us>', of ids delivered before
-- KEYS[8] garbage   set
-- KEYS[9] paused    string, exists while the queue is paused
-- KEYS[10] stats    hash
-- ARGV[1] most ids to take
-- ARGV[2] how many of them are reserved for retry
-- ARGV[3] most ids to take from retry
-- ARGV[4] duration of the lease in us
-- ARGV[5] most possible poison messages to take
-- ARGV[6] most further ones to skip, to reach the messages behind them
--
-- An id in a list is a hint: it counts only if it has a retry count and is in none of pending, unack, dead. If attempts
-- has the end of its last lease, it may only be taken from retry, for a free worker; from ready it is moved there.
-- A possible poison message (`suspect` below) is an id in retry that counts and whose last lease ran out: it may have
-- crashed its process, and could crash the next one, with all that it holds. Skipped ones go to the left end of retry.
-- When more than ARGV[6] are found, nothing more is taken from retry.
-- An id that counts but is not 36 characters long goes to garbage; the caller checks the characters of the others.
-- Returns {ids popped, end of lease in us, time of Redis in us, first deliveries, redeliveries, ids popped from retry,
-- ids left in retry, possible poison messages taken, further ones found, number of foreign ids, first foreign id}, with
-- redeliveries as 'id deliveries id deliveries ...'.
local ready, retry, unack, pending, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local count, attempts, garbage, paused, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local places, share, hands = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local suspects, pass = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = now + ARGV[4]
if not (lease < 2 ^ 53) then return redis.error_reply('ERR a lease of ' .. ARGV[4] .. ' us: it must end before 2^53 us') end
local waiting = redis.call('LLEN', retry)
local ids, old, first, again, suspected, passed, foreign, met, looked = {}, {}, {}, {}, {}, {}, {}, 0, 0
local function answer()
  return {#ids, string.format('%.0f', lease), string.format('%.0f', now), table.concat(first, ' '),
    table.concat(again, ' '), #old, waiting - #old, table.concat(suspected, ' '), met, #foreign, foreign[1] or ''}
end
if redis.call('EXISTS', paused) == 1 then return answer() end
local due, kept = redis.call('LLEN', ready), math.min(share, places)
local most_old = math.min(hands, places - math.min(places - kept, due), waiting)

-- The lists are read now and trimmed last: if a write in between fails, they still have the ids.
local function look(most)
  local found = redis.call('LRANGE', retry, -looked - most, -looked - 1)
  local notes, alive = redis.call('HMGET', attempts, unpack(found)), redis.call('HMGET', count, unpack(found))
  for i = #found, 1, -1 do
    if #old == most_old then return end
    local suspect = notes[i] and string.find(notes[i], '^%d+ %d+$') and string.sub(notes[i], -3) ~= '000'  -- see nack
    suspect = suspect and alive[i] and not redis.call('ZSCORE', unack, found[i])
    local over = suspect and #suspected == suspects
    if over then met = met + 1 end
    if met > pass then return end
    table.insert(over and passed or old, found[i])
    if suspect and not over then table.insert(suspected, found[i]) end
    looked = looked + 1
  end
end
if most_old > 0 then look(most_old) end
if #old < most_old and met <= pass and looked < waiting then look(most_old - #old + pass - met) end
local new, redelivery = math.min(places - #old, due), {}
local fresh = new > 0 and redis.call('LRANGE', ready, -new, -1) or {}
for i = new, 1, -1 do ids[#ids + 1] = fresh[i] end
for i, id in ipairs(old) do ids[new + i], redelivery[id] = id, true end
if #ids + looked == 0 then return answer() end

local some = #ids > 0 and ids or {''}
local function scores(zset) return redis.call('ZCARD', zset) > 0 and redis.call('ZMSCORE', zset, unpack(some)) or {} end
local counts, waits, given_up = redis.call('HMGET', count, unpack(some)), scores(pending), scores(dead)
local before = redis.call('HLEN', attempts) > 0 and redis.call('HMGET', attempts, unpack(some)) or {}
redis.call('SCARD', garbage)  -- a key of a wrong type fails here, before the first write
-- The end of the lease must be unique in unack, and no whole millisecond, which would be a backoff: see nack. The span
-- from the wanted end is doubled until it has an unused one; then a binary search finds that one.
local function used(from, length)
  return redis.call('ZCOUNT', unack, from / 1e6, (from + length - 1) / 1e6)
    + math.floor((from + length - 1) / 1000) - math.floor((from - 1) / 1000)
end
local span = 1
while used(lease, span) >= span do span = 2 * span end
while span > 1 do
  span, lease = span / 2, used(lease, span / 2) >= span / 2 and lease + span / 2 or lease
end
local score = string.format('%.6f', lease / 1000000)  -- else Lua would format the number for each id
local took, leases, finished = {}, {}, {}
for i = 1, #ids do
  local elsewhere = waits[i] or given_up[i]
  if i <= new and counts[i] and not elsewhere and before[i] and string.find(before[i], '^%d+ ') then
    passed[#passed + 1], waiting = ids[i], waiting + 1
  elseif counts[i] and not elsewhere and #ids[i] == 36 then
    took[#took + 1] = i
    leases[2 * #took - 1], leases[2 * #took] = score, ids[i]
  elseif not elsewhere and not redis.call('ZSCORE', unack, ids[i]) then
    finished[#finished + 1] = ids[i]
    if counts[i] then foreign[#foreign + 1] = string.sub(ids[i], 1, 64) end
  end
end
redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
-- NX: a held message keeps its lease. If fewer were added than taken, the score shows which ones have the new lease.
local added, seen = #took > 0 and redis.call('ZADD', unack, 'NX', unpack(leases)) or 0, {}
for _, i in ipairs(took) do
  local id = ids[i]
  if added == #took or not seen[id] and tonumber(redis.call('ZSCORE', unack, id)) == tonumber(score) then
    local noted = before[i] and string.match(before[i], '^%d+')
    local had = noted and math.min(noted, 1e9) or redelivery[id] and 1
    if had then again[#again + 1], again[#again + 2] = id, had + 1 else first[#first + 1] = id end
    if added < #took then seen[id] = true end
  end
end
if #again > 0 then redis.call('HSET', attempts, unpack(again)) end
if #finished > 0 then redis.call('SADD', garbage, unpack(finished)) end
if #passed > 0 then redis.call('LPUSH', retry, unpack(passed)) end
if new > 0 then redis.call('LTRIM', ready, 0, -new - 1) end
if looked > 0 then redis.call('LTRIM', retry, 0, -looked - 1) end
if added > 0 then redis.pcall('HINCRBY', stats, 'delivered', added) end
if #foreign > 0 then redis.pcall('HINCRBY', stats, 'foreign', #foreign) end
return answer()
