-- forget: delete the remaining keys of a queue that has no messages and no garbage.
--
-- KEYS[1] pending   zset
-- KEYS[2] ready     list
-- KEYS[3] unack     zset
-- KEYS[4] retry     list
-- KEYS[5] dead      zset
-- KEYS[6] retry:cnt hash
-- KEYS[7] garbage   set
-- KEYS[8] settings  hash  loses the generation of the pause; the layout of partitions stays, for senders may have read it
-- KEYS[9...]        keys to delete: statistics, metadata, pause, wake-up hints, lock, registry, actions
--
-- Returns 1: deleted; 0: one of the first seven keys exists, and nothing was deleted.
local left = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
if left > 0 then return 0 end
redis.call('HDEL', KEYS[8], 'pause')
for i = 9, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
