--! keys attempts reason headers
-- Deletes all metadata of messages.
local function delete_metadata(...)
  redis.call('HDEL', attempts, ...)  --! check deliveries_are_deleted
  redis.call('HDEL', reason, ...)  --! check reason_is_deleted
  redis.call('HDEL', headers, ...)  --! check headers_are_deleted
end
