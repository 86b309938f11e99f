-- purge: move messages of one state to garbage, oldest first; or remove the ids before the first message of a list.
--
-- KEYS[1] the state: pending or dead (zset), ready or retry (list)
-- KEYS[2] pending   zset
-- KEYS[3] unack     zset
-- KEYS[4] dead      zset
-- KEYS[5] retry:cnt hash
-- KEYS[6] attempts  hash
-- KEYS[7] reason    hash
-- KEYS[8] garbage   set
-- KEYS[9] stats     hash
-- ARGV[1] 'zset'; 'list'; 'hints': only ids of a list that have no message there, up to the first that has one
-- ARGV[2] limit     most ids to remove
-- ARGV[3] zset: minimum age of the score in ms, or '' for any
-- ARGV[4] zset: how many of the newest to keep
--
-- Ids in a list count as in ready2unack.
-- Returns {number of ids removed, number of messages purged, ids that are garbage now joined by ' '}.
local state, pending, unack, dead, count = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local attempts, reason, garbage, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local limit = tonumber(ARGV[2])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local ids, gone, purged = {}, {}, 0
if ARGV[1] == 'zset' then
  local newest = ARGV[3] == '' and '+inf' or (now - ARGV[3] * 1000) / 1000000
  limit = math.max(0, math.min(limit, redis.call('ZCARD', state) - ARGV[4]))
  ids = redis.call('ZRANGEBYSCORE', state, '-inf', newest, 'LIMIT', 0, limit)
  gone, purged = ids, #ids
else
  ids = limit > 0 and redis.call('LRANGE', state, -limit, -1) or {}
  if #ids > 0 then
    local counts = redis.call('HMGET', count, unpack(ids))
    local held = redis.call('ZMSCORE', unack, unpack(ids))
    local waits = redis.call('ZMSCORE', pending, unpack(ids))
    local given_up = redis.call('ZMSCORE', dead, unpack(ids))
    local seen = {}
    for i = ARGV[1] == 'hints' and #ids or 0, 1, -1 do  -- the last is the next to be delivered
      if counts[i] and not (held[i] or waits[i] or given_up[i]) then
        ids = {unpack(ids, i + 1)}
        counts, held = {unpack(counts, i + 1)}, {unpack(held, i + 1)}
        waits, given_up = {unpack(waits, i + 1)}, {unpack(given_up, i + 1)}
        break
      end
    end
    for i, id in ipairs(ids) do
      if not (held[i] or waits[i] or given_up[i] or seen[id]) then
        seen[id] = true
        gone[#gone + 1] = id
        if counts[i] then purged = purged + 1 end
      end
    end
  end
end
if #ids == 0 then return {0, 0, ''} end
redis.call('HLEN', count)
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('SCARD', garbage)

redis.call('ZREM', pending, '')  -- so that Redis accepts the rest when out of memory: see nack
if #gone > 0 then
  redis.call('SADD', garbage, unpack(gone))
  redis.call('HDEL', count, unpack(gone))
  redis.call('HDEL', attempts, unpack(gone))
  redis.call('HDEL', reason, unpack(gone))
end
if ARGV[1] == 'zset' then
  redis.call('ZREM', state, unpack(ids))
else
  redis.call('LTRIM', state, 0, -#ids - 1)
end
if purged > 0 then redis.pcall('HINCRBY', stats, 'purged', purged) end
return {#ids, purged, table.concat(gone, ' ')}
