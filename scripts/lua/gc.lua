-- gc: delete what is left of finished messages.
--! keys garbage unack pending dead count attempts reason headers keys | body
--! args before_id
--! use any_ids metadata
--
-- before_id: length of a body's key without the id; the id may be any text, since foreign ids end in garbage, too
--
-- An id that is no longer in garbage was sent or restored again, and is skipped. An id that is also in a zset can still
-- be delivered, so it only leaves garbage.
-- Returns the number of messages deleted.

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
      bodies[#bodies + 1] = KEYS.body[i]
    end
  end
end
if #deleted > 0 then
  redis.call('UNLINK', unpack(bodies))  --! check body_is_deleted
  redis.call('HDEL', count, unpack(deleted))  --! check count_is_deleted
  delete_metadata(unpack(deleted))  --! check metadata_is_deleted
end
if #leaves > 0 then redis.call('SREM', garbage, unpack(leaves)) end  --! check id_leaves_garbage
return #deleted
