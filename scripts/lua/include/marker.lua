--! keys pending wake
-- Wakes a consumer if a message is due now, or first in pending. The marker is a hint, so its errors are ignored.
local function set_marker(due, later)
  local head = later and redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')
  if not later or tonumber(head[2]) == due / 1000 then
    redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w')
  end
end
