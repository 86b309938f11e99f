-- pending2ready: move due messages from pending to ready, in the order of their due times.
--
-- KEYS[1] pending  zset    id -> due time
-- KEYS[2] ready    list    pushed left, taken right
-- KEYS[3] watch    string  '<us> <consumer>': this consumer calls again at that time; expires shortly after it
-- KEYS[4] wake     zset    'w' -> when a consumer should call; the marker wakes an idle one
-- KEYS[5] stats    hash    'probe': see ready2unack
-- ARGV[1] limit    most ids to move
-- ARGV[2] '1': return the ids
-- ARGV[3] name of the calling consumer
-- ARGV[4] us until it calls again in any case; '': it has no free worker, so another consumer should watch
--
-- Of the consumers with a free worker, one watches for the next due time, if that is before its next call in any case;
-- the others need not call then. Its watch ends when it calls and no message is due before its next call. A consumer
-- without a free worker adds the marker: for now if it moved messages, else for the next due time unless another
-- consumer watches.
-- If ready was empty, the first id moved is the probe, since its due time.
-- Returns {number moved, us until the next is due (-1: none pending), ids joined by ' ' or '', 1 if the caller must
-- call again by then}.
local pending, ready, watch, wake, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit = tonumber(ARGV[1])
local caller = ARGV[3]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Move the due ids.
local ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
local is_empty = redis.call('LLEN', ready) == 0  -- a key of a wrong type fails here, before the first write
-- So that Redis accepts the rest when out of memory: see nack. Removing an empty member changes the ids and ranks.
if #ids > 0 and redis.call('ZREM', pending, '') == 1 then
  ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
end
if #ids > 0 then
  redis.call('LPUSH', ready, unpack(ids))
  if is_empty and #ids[1] == 36 then
    local since = redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')[2] or 0
    redis.pcall('HSET', stats, 'probe', string.format('%s %.0f', ids[1], math.max(0, since * 1000000)))
  end
  redis.call('ZREMRANGEBYRANK', pending, 0, #ids - 1)
end

-- The next due time.
local due = nil
local wait = -1
local head = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
if head[2] then
  due = math.floor(head[2] * 1000000 + 0.5)
  wait = math.max(0, due - now)
end

-- The watch for that time. watch and wake are hints: their errors are ignored. If the watch cannot be stored, every
-- consumer watches. Other programs may write any value: a watch that does not expire, or whose time is past, does not
-- count.
local value = redis.pcall('GET', watch)
local watched, watcher
if type(value) == 'string' then watched, watcher = string.match(value, '^(%d+) (.+)$') end
local invalid = watcher and (tonumber(watched) < now - 200000 or redis.pcall('PTTL', watch) == -1)
local unwatched = due and (not watcher or invalid or watcher == caller or tonumber(watched) > due)
local must_call = 0
if ARGV[4] == '' then
  must_call = 1
  if watcher == caller then redis.pcall('UNLINK', watch) end
  if #ids > 0 then
    redis.pcall('ZADD', wake, 'LT', 0, 'w')
  elseif unwatched then
    redis.pcall('ZADD', wake, 'LT', due / 1000000, 'w')
  end
elseif unwatched and wait < tonumber(ARGV[4]) then
  must_call = 1
  redis.pcall('SET', watch, string.format('%.0f %s', due, caller), 'PX', math.ceil(wait / 1000) + 200)
elseif watcher == caller then
  redis.pcall('UNLINK', watch)
end

local moved = {}
for i = 1, ARGV[2] == '1' and #ids or 0 do
  if #ids[i] == 36 then moved[#moved + 1] = ids[i] end  -- else it is no id: see ready2unack
end
return {#ids, wait, table.concat(moved, ' '), must_call}
