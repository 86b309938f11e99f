-- gc: delete what is left of finished messages.
--
-- KEYS[1] garbage   set
-- KEYS[2] unack     zset
-- KEYS[3] pending   zset
-- KEYS[4] dead      zset
-- KEYS[5] retry:cnt hash
-- KEYS[6] attempts  hash
-- KEYS[7] reason    hash
-- KEYS[8] headers   hash
-- KEYS[9...]        body of each message; ends in its id
-- ARGV[1] length of a body's key without the id; the id may be any text, since foreign ids end in garbage, too
--
-- An id that is no longer in garbage was sent or restored again, and is skipped. An id that is also in a zset can still
-- be delivered, so it only leaves garbage.
-- Returns the number of messages deleted.
local garbage, unack, pending, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, attempts, reason, headers = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local ids = {}
for i = 9, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], ARGV[1] + 1) end
local member = redis.call('SMISMEMBER', garbage, unpack(ids))
local in_unack = redis.call('ZMSCORE', unack, unpack(ids))
local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
redis.call('HLEN', count)
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('HLEN', headers)

local leaves, deleted, bodies = {}, {}, {}
for i, id in ipairs(ids) do
  if member[i] == 1 then
    leaves[#leaves + 1] = id
    if not (in_unack[i] or in_pending[i] or in_dead[i]) then
      deleted[#deleted + 1] = id
      bodies[#bodies + 1] = KEYS[8 + i]
    end
  end
end
if #deleted > 0 then
  redis.call('UNLINK', unpack(bodies))
  redis.call('HDEL', count, unpack(deleted))
  redis.call('HDEL', attempts, unpack(deleted))
  redis.call('HDEL', reason, unpack(deleted))
  redis.call('HDEL', headers, unpack(deleted))
end
if #leaves > 0 then redis.call('SREM', garbage, unpack(leaves)) end
return #deleted
