-- ready2unack: take messages that are due, and lease them to a consumer.
--
-- KEYS[1] ready     list  taken from the right
-- KEYS[2] retry     list  taken from the right
-- KEYS[3] unack     zset  id -> end of lease
-- KEYS[4] pending   zset
-- KEYS[5] dead      zset
-- KEYS[6] retry:cnt hash  id -> retries left
-- KEYS[7] attempts  hash  id -> deliveries so far, of ids delivered before
-- KEYS[8] garbage   set
-- KEYS[9] paused    string, there while nothing is to be taken
-- KEYS[10] stats    hash
-- ARGV[1] places    most ids to take
-- ARGV[2] share     how many of them are for retry, if it has so many
-- ARGV[3] hands     most ids to take from retry
-- ARGV[4] lease     us
-- ARGV[5] suspects  most suspects to take
-- ARGV[6] pass      most other suspects to pass over, for what waits behind them
--
-- An id in a list is a hint. It counts if it has retries recorded and is in none of pending, unack, dead.
-- A suspect is an id in retry whose last delivery ended with its lease: it may have killed its process, and may kill
-- the next one with all that it has in hand. Suspects that are passed over go to the left end of retry.
-- Returns {ids popped, end of lease in us, Redis' time in us, first deliveries, redeliveries, ids popped from retry, ids
-- left in retry, suspects taken, suspects met beyond those} with first deliveries and suspects as 'id id ...' and
-- redeliveries as 'id deliveries id deliveries ...'. If it met more suspects than it might pass over, it stopped there.
local ready, retry, unack, pending, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local count, attempts, garbage, paused, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local places, share, hands = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local suspects, pass = tonumber(ARGV[5]), tonumber(ARGV[6])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = now + ARGV[4]
if lease % 1000 == 0 then lease = lease + 1 end  -- whole milliseconds are backoffs: see nack

local waiting, met = redis.call('LLEN', retry), 0
local function nothing() return {0, '0', string.format('%.0f', now), '', '', 0, waiting, '', met} end
if redis.call('EXISTS', paused) == 1 then return nothing() end
local due = redis.call('LLEN', ready)
local old = math.min(share, hands, places, waiting)
old = math.min(hands, places - math.min(places - old, due), waiting)

-- Chooses `old` ids from the right end of retry, and looks at `most` for that.
local looked, chosen, suspected, passed = 0, {}, {}, {}
local function choose(most)
  local found = redis.call('LRANGE', retry, -looked - most, -looked - 1)
  local notes = redis.call('HMGET', attempts, unpack(found))
  for i = #found, 1, -1 do
    if #chosen == old then return end
    -- Ends of our leases are never whole milliseconds; those of nacks and of Go workers are.
    local suspect = notes[i] and string.find(notes[i], '^%d+ %d+$') and string.sub(notes[i], -3) ~= '000'
    if suspect and #suspected == suspects then
      met = met + 1
      if met > pass then return end
      passed[met] = found[i]
    else
      chosen[#chosen + 1] = found[i]
      if suspect then suspected[#suspected + 1] = found[i] end
    end
    looked = looked + 1
  end
end
if old > 0 then
  choose(old)
  local more = math.min(old - #chosen + pass - met + 1, waiting - looked)
  if #chosen < old and met <= pass and more > 0 then choose(more) end
  old = #chosen
end
local new = math.min(places - old, due)
local popped = new + old
local function leave_retry()
  if #passed > 0 then redis.call('LPUSH', retry, unpack(passed)) end
  if looked > 0 then redis.call('LTRIM', retry, 0, -looked - 1) end
end
if popped == 0 then
  if looked > 0 then redis.call('ZREM', unack, '') end  -- see below
  leave_retry()
  return nothing()
end

-- Read now, cut off at the end: if a write in between fails, the lists still have the ids.
local ids, redelivery = {}, {}
if new > 0 then
  for i, id in ipairs(redis.call('LRANGE', ready, -new, -1)) do ids[new + 1 - i] = id end
end
for i, id in ipairs(chosen) do
  ids[new + i] = id
  redelivery[id] = true
end

local function scores(zset)
  return redis.call('ZCARD', zset) > 0 and redis.call('ZMSCORE', zset, unpack(ids)) or {}
end
local counts = redis.call('HMGET', count, unpack(ids))
local held, waits, given_up = scores(unack), scores(pending), scores(dead)
local before = redis.call('HLEN', attempts) > 0 and redis.call('HMGET', attempts, unpack(ids)) or {}
redis.call('SCARD', garbage)  -- a key of a wrong type must stop us here
redis.call('HLEN', stats)

local first, again, leases, deliveries, finished, seen = {}, {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  if not (held[i] or waits[i] or given_up[i] or seen[id]) then
    seen[id] = true
    if not counts[i] then
      finished[#finished + 1] = id
    else
      leases[#leases + 1] = lease / 1000000
      leases[#leases + 1] = id
      local had = before[i] and tonumber(string.match(before[i], '^%d+')) or redelivery[id] and 1
      if had then
        again[#again + 1] = id
        again[#again + 1] = had + 1
        deliveries[#deliveries + 1] = id
        deliveries[#deliveries + 1] = had + 1
      else
        first[#first + 1] = id
      end
    end
  end
end

redis.call('ZREM', unack, '')  -- lets the rest pass when Redis is out of memory
if #leases > 0 then redis.call('ZADD', unack, unpack(leases)) end
if #deliveries > 0 then redis.call('HSET', attempts, unpack(deliveries)) end
if #finished > 0 then redis.call('SADD', garbage, unpack(finished)) end
if new > 0 then redis.call('LTRIM', ready, 0, -new - 1) end
leave_retry()
if #leases > 0 then redis.call('HINCRBY', stats, 'delivered', #leases / 2) end
return {popped, string.format('%.0f', lease), string.format('%.0f', now), table.concat(first, ' '),
  table.concat(again, ' '), old, waiting - old, table.concat(suspected, ' '), met}
