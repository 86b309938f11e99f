--! keys attempts reason headers keys
-- Deletes all metadata of messages. An error in `keys` is ignored: a field there holds a key only for a message that is
-- alive and, if that hash is of another type, no message has one.
local function delete_metadata(...)
  redis.call('HDEL', attempts, ...)  --! check deliveries_are_deleted
  redis.call('HDEL', reason, ...)  --! check reason_is_deleted
  redis.call('HDEL', headers, ...)  --! check headers_are_deleted
  redis.pcall('HDEL', keys, ...)  --! check key_is_deleted
end
