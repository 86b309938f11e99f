-- send_one: store one message whose id is new. The effect is that of send, with fewer keys and commands.
--
-- KEYS[1] pending   zset  id -> due time
-- KEYS[2] ready     list  due ids; pushed left, taken right
-- KEYS[3] retry:cnt hash  id -> retries left
-- KEYS[4] stats     hash
-- KEYS[5] wake      zset
-- KEYS[6] body of the message; the last 36 characters are its id
-- KEYS[7] headers   hash  id -> packed headers; absent if the message has none
-- ARGV[1] delay in ms, or ''
-- ARGV[2] due time in ms since 1970, used when there is no delay
-- ARGV[3] retries
-- ARGV[4] TTL in ms after the due time, '0' for none
-- ARGV[5] payload
-- ARGV[6] packed headers; absent if the message has none
--
-- Unlike send, it reads only one of pending and ready: the one that gets the message.
-- Returns 1, or -1 if the message is the first that stats counts: the queue may be missing in the set of queues.
local pending, ready, count, stats, wake, body = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local id = string.sub(body, -36)
local headers = KEYS[7]
local ttl = tonumber(ARGV[4])

local now, due, later = 0, 0, false
if ARGV[1] ~= '0' then  -- else the message is due now, and the time makes no difference
  local time = redis.call('TIME')
  now = time[1] * 1000 + time[2] / 1000
  due = ARGV[1] ~= '' and math.ceil(now + ARGV[1]) or tonumber(ARGV[2])
  later = due > now
end

-- A key of a wrong type fails here or at the first write. The head of pending decides about the marker below. A user
-- without the right to ZRANGE may send; the marker is then always set.
local head
if later then
  head = redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')
  if head.err then redis.call('ZCARD', pending) end
else
  redis.call('LLEN', ready)
end
if headers then redis.call('HLEN', headers) end

redis.call('HSET', count, id, ARGV[3])  -- the first write: out of memory Redis refuses the whole script
if headers then redis.call('HSET', headers, id, ARGV[6]) end
if later then
  redis.call('ZADD', pending, string.format('%.3f', due / 1000), id)
else
  redis.call('LPUSH', ready, id)
end
redis.call('MSET', body, ARGV[5])  -- last: a message with a body exists, and a repeated send does nothing
if ttl > 0 then redis.call('PEXPIRE', body, math.max(1, math.ceil(due - now) + ttl)) end
local first = redis.pcall('HINCRBY', stats, 'sent', 1) == 1

-- A hint, so its errors are ignored: the marker wakes a consumer if a message is due now, or first in pending.
if not later or due / 1000 <= tonumber(head[2] or math.huge) then
  redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w')
end

return first and -1 or 1
