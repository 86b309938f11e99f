--! keys running limits wake
-- Frees the places of messages that were in flight, in a queue that limits their number: see take_paced. If a take was
-- refused for want of one, this wakes a consumer. An entry counts only while its message has a lease, so errors are
-- ignored.
local function leave(ids)
  if #ids == 0 then return end
  local freed = redis.pcall('ZREM', running, unpack(ids))  --! check place_is_freed
  if type(freed) == 'number' and freed > 0 and redis.pcall('HDEL', limits, 'full') == 1 then
    redis.pcall('ZADD', wake, 'LT', 0, 'w')  --! check freed_place_wakes_a_consumer
  end
end
