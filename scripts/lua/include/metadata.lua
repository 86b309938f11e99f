--! keys attempts reason headers
-- Deletes all metadata of messages.
local function delete_metadata(...)
  redis.call('HDEL', attempts, ...)
  redis.call('HDEL', reason, ...)
  redis.call('HDEL', headers, ...)
end
