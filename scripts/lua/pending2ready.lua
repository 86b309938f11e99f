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
-- Lets the rest pass when Redis is out of memory. If there is such a member, ranks and ids are others without it.
if #ids > 0 and redis.call('ZREM', pending, '') == 1 then
  ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
end
if #ids > 0 then
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
-- Others may write anything there: a watch without end, or of a time that is past, is none.
local note = redis.pcall('GET', watch)
local watched, by
if type(note) == 'string' then watched, by = string.match(note, '^(%d+) (.+)$') end
local over = by and (tonumber(watched) < now - 200000 or redis.pcall('PTTL', watch) == -1)
local unwatched = due and (not by or over or by == who or tonumber(watched) > due)
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
local moved = {}
for i = 1, ARGV[2] == '1' and #ids or 0 do
  if #ids[i] == 36 then moved[#moved + 1] = ids[i] end  -- else it is no id: see ready2unack
end
return {#ids, wait, table.concat(moved, ' '), keeps}
