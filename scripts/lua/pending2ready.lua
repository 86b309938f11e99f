-- pending2ready: move due messages from pending to ready, in the order of their due times.
--
-- KEYS[1] pending  zset  id -> due time
-- KEYS[2] ready    list  pushed left, taken right
-- ARGV[1] limit    most ids to move
-- ARGV[2] '1': answer with the ids moved
--
-- Returns {number moved, us until the next is due (-1: none pending), ids joined by ' ' or ''}.
local pending, ready = KEYS[1], KEYS[2]
local limit = tonumber(ARGV[1])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
redis.call('LLEN', ready)  -- a wrong type must stop us here
if #ids > 0 then
  redis.call('ZREM', pending, '')  -- lets the rest pass when Redis is out of memory
  redis.call('LPUSH', ready, unpack(ids))
  redis.call('ZREMRANGEBYRANK', pending, 0, #ids - 1)
end

local wait = -1
local head = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
if head[2] then wait = math.max(0, math.floor(head[2] * 1000000 + 0.5) - now) end
return {#ids, wait, ARGV[2] == '1' and table.concat(ids, ' ') or ''}
