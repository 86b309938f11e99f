-- send_new: store messages whose ids are new, and whose bodies are stored already: by MSETNX, in the same transaction.
-- The effect is that of send, and the payloads do not pass through Lua.
--
-- KEYS[1] pending   zset  id -> due time
-- KEYS[2] ready     list  due ids; pushed left, taken right
-- KEYS[3] retry:cnt hash  id -> retries left
-- KEYS[4] stats     hash
-- KEYS[5] wake      zset
-- KEYS[6] headers   hash  id -> packed headers
-- KEYS[7] token     string  stored by the same MSETNX; deleted here
-- KEYS[8...]        body of each message; absent if they have no TTL
-- ARGV[1] delay in ms, or ''
-- ARGV[2] due time in ms since 1970, used when there is no delay
-- ARGV[3] retries
-- ARGV[4] TTL in ms after the due time, '0' for none
-- ARGV[5] number of messages
-- ARGV[6...] the id of each message; then its packed headers, '' for none, absent if no message has any
--
-- MSETNX stores all of its keys or none. So while the token exists, so do all bodies, and this call has not run before.
-- A call that arrives late, after a repeated send with the same ids, finds no token: one of its keys existed.
-- Without the token, or after an error, nothing is stored; the client then deletes the bodies and the token.
-- If ready was empty, the first message due now is the probe: see ready2unack.
-- Returns the number of messages. If they are the first that stats counts, it is negative: the queue may be missing in
-- the set of queues.
local pending, ready, count, stats, wake, headers = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token = KEYS[7]
local retries, ttl, messages = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local ids = {unpack(ARGV, 6, 5 + messages)}

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local due = ARGV[1] ~= '' and math.ceil(now + ARGV[1]) or tonumber(ARGV[2])
local later = due > now and ARGV[1] ~= '0'

-- A key of a wrong type fails here, before the first write.
redis.call('ZCARD', pending)
redis.call('LLEN', ready)
redis.call('HLEN', count)
redis.call('HLEN', headers)
if redis.call('UNLINK', token) == 0 then
  return redis.error_reply('ERR send_new: the payloads are not stored: MSETNX was refused, or found one of its ' ..
    'keys; nothing was stored; send again')
end
if ttl > 0 then  -- before the messages exist, for a user who may not do this
  local life = math.max(1, math.ceil(due - now) + ttl)
  for i = 1, messages do redis.call('PEXPIRE', KEYS[7 + i], life) end
end

local counts, packed = {}, {}
for i = 1, messages do
  counts[2 * i - 1] = ids[i]
  counts[2 * i] = retries
end
if #ARGV > 5 + messages then
  for i = 1, messages do
    local its_headers = ARGV[5 + messages + i]
    if its_headers ~= '' then
      packed[#packed + 1] = ids[i]
      packed[#packed + 1] = its_headers
    end
  end
end
local is_probe = false
if later then  -- out of memory Redis has refused MSETNX, or refuses this
  local score = string.format('%.3f', due / 1000)  -- else Lua would format the number for each id
  local scores = {}
  for i = 1, messages do
    scores[2 * i - 1] = score
    scores[2 * i] = ids[messages + 1 - i]  -- in descending order: see ready2unack
  end
  redis.call('ZADD', pending, unpack(scores))
else
  is_probe = redis.call('LPUSH', ready, unpack(ids)) == messages
end
if #packed > 0 then redis.call('HSET', headers, unpack(packed)) end
redis.call('HSET', count, unpack(counts))  -- last: a message without a count does not exist
local first = redis.pcall('HINCRBY', stats, 'sent', messages) == messages
if is_probe then redis.pcall('HSET', stats, 'probe', string.format('%s %.0f', ids[1], now * 1000)) end

-- A hint, so its errors are ignored: the marker wakes a consumer if a message is due now, or first in pending.
local head = later and redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')
if not later or tonumber(head[2]) == due / 1000 then
  redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w')
end
return first and -messages or messages
