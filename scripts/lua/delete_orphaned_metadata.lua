-- delete_orphaned_metadata: delete metadata of messages that no longer exist. Workers of the Go library leave it.
--
-- KEYS[1] retry:cnt hash
-- KEYS[2] dead      zset
-- KEYS[3] attempts  hash
-- KEYS[4] reason    hash
-- ARGV[1...] ids
--
-- Returns the number of ids that have no retry count and are not dead.
local count, dead, attempts, reason = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local counts = redis.call('HMGET', count, unpack(ARGV))
local in_dead = redis.call('ZMSCORE', dead, unpack(ARGV))
redis.call('HLEN', attempts)
redis.call('HLEN', reason)

local gone = {}
for i, id in ipairs(ARGV) do
  if not counts[i] and not in_dead[i] then gone[#gone + 1] = id end
end
if #gone > 0 then
  redis.call('HDEL', attempts, unpack(gone))
  redis.call('HDEL', reason, unpack(gone))
end
return #gone
