--! keys stats
-- Deletes the probe if it is one of these messages: its time would be wrong when the message is ready again.
local function drop_probe(dropped)
  local probe = string.sub(redis.pcall('HMGET', stats, 'probe')[1] or '', 1, 36)
  for _, id in ipairs(dropped) do
    if id == probe then redis.pcall('HDEL', stats, 'probe') end  --! check old_probe_is_deleted
  end
end
