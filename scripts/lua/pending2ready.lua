-- pending2ready: move due messages from pending to ready, in the order of their due times.
--
-- KEYS[1] pending  zset    id -> due time
-- KEYS[2] ready    list    pushed left, taken right
-- KEYS[3] watch    string  '<us> <who>': somebody looks again at that time; gone shortly after it
-- KEYS[4] wake     zset    'w' -> when a consumer should look
-- ARGV[1] limit    most ids to move
-- ARGV[2] '1': answer with the ids moved
-- ARGV[3] who asks
-- ARGV[4] us until who asks will ask again anyway; '': no hands are free there, so that another should watch
--
-- Of those with free hands one keeps watch for the next due time, if it comes before they ask again anyway; the others
-- need not be there. Who has none leaves the marker that wakes one with free hands, unless that is watched for.
-- Returns {number moved, us until the next is due (-1: none pending), ids joined by ' ' or '', 1 if who asks is to ask
-- again by then}.
local pending, ready, watch, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local limit, who = tonumber(ARGV[1]), ARGV[3]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
redis.call('LLEN', ready)  -- a wrong type must stop us here
if #ids > 0 then
  redis.call('ZREM', pending, '')  -- lets the rest pass when Redis is out of memory
  redis.call('LPUSH', ready, unpack(ids))
  redis.call('ZREMRANGEBYRANK', pending, 0, #ids - 1)
end

local due, wait, keeps = nil, -1, 0
local head = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
if head[2] then
  due = math.floor(head[2] * 1000000 + 0.5)
  wait = math.max(0, due - now)
end

-- Hints, which must fail nothing. A watch that cannot be kept in Redis is kept all the same, by all.
local note = redis.pcall('GET', watch)
local watched, by
if type(note) == 'string' then watched, by = string.match(note, '^(%d+) (.+)$') end
local unwatched = due and (not by or by == who or tonumber(watched) > due)
if ARGV[4] == '' then
  keeps = 1
  if by == who then redis.pcall('UNLINK', watch) end
  if #ids > 0 then
    redis.pcall('ZADD', wake, 'LT', 0, 'w')
  elseif unwatched then
    redis.pcall('ZADD', wake, 'LT', due / 1000000, 'w')
  end
elseif unwatched and wait < tonumber(ARGV[4]) then
  keeps = 1
  redis.pcall('SET', watch, string.format('%.0f %s', due, who), 'PX', math.ceil(wait / 1000) + 200)
end
return {#ids, wait, ARGV[2] == '1' and table.concat(ids, ' ') or '', keeps}
