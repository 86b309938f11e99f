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
--
-- An id in a list is a hint. It counts if it has retries recorded and is in none of pending, unack, dead.
-- Returns {ids popped, end of lease in us, Redis' time in us, first deliveries, redeliveries, ids popped from retry, ids
-- left in retry} with first deliveries as 'id id ...' and redeliveries as 'id deliveries id deliveries ...'.
local ready, retry, unack, pending, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local count, attempts, garbage, paused, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local places, share, hands = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = now + ARGV[4]
if lease % 1000 == 0 then lease = lease + 1 end  -- whole milliseconds are backoffs: see nack

local waiting = redis.call('LLEN', retry)
if redis.call('EXISTS', paused) == 1 then
  return {0, '0', string.format('%.0f', now), '', '', 0, waiting}
end
local old = math.min(share, hands, places, waiting)
local new = math.min(places - old, redis.call('LLEN', ready))
old = math.min(hands, places - new, waiting)
local popped = new + old
if popped == 0 then return {0, '0', string.format('%.0f', now), '', '', 0, waiting} end

-- Read now, cut off at the end: if a write in between fails, the lists still have the ids.
local ids, redelivery = {}, {}
if new > 0 then
  for i, id in ipairs(redis.call('LRANGE', ready, -new, -1)) do ids[new + 1 - i] = id end
end
if old > 0 then
  for i, id in ipairs(redis.call('LRANGE', retry, -old, -1)) do
    ids[popped + 1 - i] = id
    redelivery[id] = true
  end
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
if old > 0 then redis.call('LTRIM', retry, 0, -old - 1) end
if #leases > 0 then redis.call('HINCRBY', stats, 'delivered', #leases / 2) end
return {popped, string.format('%.0f', lease), string.format('%.0f', now),
  table.concat(first, ' '), table.concat(again, ' '), old, waiting - old}
