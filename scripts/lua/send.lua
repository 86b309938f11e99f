-- send: store new messages, all with the same due time, retries and TTL.
--
-- KEYS[1] pending   zset  id -> due time
-- KEYS[2] ready     list  due ids; pushed left, taken right
-- KEYS[3] retry:cnt hash  id -> retries left
-- KEYS[4] garbage   set
-- KEYS[5] unack     zset
-- KEYS[6] dead      zset
-- KEYS[7] attempts  hash
-- KEYS[8] reason    hash
-- KEYS[9] stats     hash
-- KEYS[10] wake     zset
-- KEYS[11] retry    list
-- KEYS[12] headers  hash  id -> packed headers
-- KEYS[13...]       body of each message; the last 36 characters are its id. Then, if the payloads are staged, the key
--                   that holds the payload of each message, in the same order
-- ARGV[1] '1': the ids are new, so none can exist; '0': the script checks that first
-- ARGV[2] delay in ms, or ''
-- ARGV[3] due time in ms since 1970, used when there is no delay
-- ARGV[4] retries
-- ARGV[5] TTL in ms after the due time, '0' for none
-- ARGV[6...] payload of each message; absent if the payloads are staged: then SET has stored each under a key with a
--            TTL, and this script renames that key to the body. If such a key is missing, nothing is stored. Then the
--            packed headers of each message, '' for none; absent if no message has any
--
-- A message is finished, and is created again, if it has no body; if it is in garbage and in no zset; or if it has no
-- retry count and is not dead, since nothing would deliver it. But while a consumer holds a cancelled message, nothing
-- is stored: a Go worker settles by the id alone, so it would settle the new message.
-- If ready was empty, the first message due now is the probe: see ready2unack.
-- Returns the number of messages if all were created, else one character per message: '1' created, '0' existed, 'C' was
-- cancelled and a consumer still holds it. If they are the first that stats counts, the number is negative, or the
-- string ends in 'N': the queue may be missing in the set of queues.
local pending, ready, count, garbage, unack = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, attempts, reason, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local wake, retry, headers = KEYS[10], KEYS[11], KEYS[12]
local staged = #ARGV - 5 < #KEYS - 12
local messages = staged and (#KEYS - 12) / 2 or #KEYS - 12
local has_headers = #ARGV - 5 == (staged and 1 or 2) * messages
local ttl = tonumber(ARGV[5])

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local due = ARGV[2] ~= '' and math.ceil(now + ARGV[2]) or tonumber(ARGV[3])
local later = ARGV[2] ~= '' and tonumber(ARGV[2]) > 0 or ARGV[2] == '' and due > now

-- A key of a wrong type fails here, before the first write.
redis.call('ZCARD', pending)
redis.call('LLEN', ready)
if has_headers or ARGV[1] ~= '1' then redis.call('HLEN', headers) end

local ids = {}
local sub = string.sub  -- a local: what is done for each message is most of the time
for i = 1, messages do ids[i] = sub(KEYS[12 + i], -36) end

-- Check which messages exist already.
local answer = {}
local created = messages
local has_retry_entries, is_probe = false, false
if ARGV[1] ~= '1' then
  local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
  local counts = redis.call('HMGET', count, unpack(ids))
  local new, seen = {}, {}
  local function outcome_of(i, id)
    if seen[id] then return '0' end
    if redis.call('EXISTS', KEYS[12 + i]) == 0 then return '1' end
    if counts[i] and finished[i] == 0 or redis.call('ZSCORE', dead, id) then return '0' end
    local held = redis.call('ZSCORE', unack, id)
    if counts[i] and (held or redis.call('ZSCORE', pending, id)) then return '0' end
    return held and 'C' or '1'
  end
  for i, id in ipairs(ids) do
    answer[i] = outcome_of(i, id)
    if answer[i] == '1' then
      seen[id] = true
      new[#new + 1] = id
    end
  end
  created = #new
  if created == 0 then
    if staged then redis.pcall('UNLINK', unpack(KEYS, 13 + messages)) end
    return table.concat(answer)
  end
  has_retry_entries = redis.call('LLEN', retry) > 0
  redis.call('ZCARD', unack)
  redis.call('ZCARD', dead)
  redis.call('HLEN', attempts)
  redis.call('HLEN', reason)
  ids = new
end

-- Store the new ones. `bodies` has, after the key of each body, its payload or the key that holds it.
local bodies, counts, packed = {}, {}, {}
local stored = 0
for i = 1, messages do
  if (answer[i] or '1') == '1' then
    local payload = staged and KEYS[12 + messages + i] or ARGV[5 + i]
    bodies[2 * stored + 1] = KEYS[12 + i]
    bodies[2 * stored + 2] = payload
    stored = stored + 1
    local its_headers = has_headers and (staged and ARGV[5 + i] or ARGV[5 + messages + i]) or ''
    if its_headers ~= '' then
      packed[#packed + 1] = string.sub(KEYS[12 + i], -36)
      packed[#packed + 1] = its_headers
    end
    if staged and redis.call('EXISTS', payload) == 0 then
      return redis.error_reply('ERR send: a payload that was stored ahead of the script (key ' .. payload ..
        ') is gone: it expired, or was deleted or evicted; nothing was stored; send again')
    end
  end
end
local retries = ARGV[4]
for i = 1, #ids do
  counts[2 * i - 1] = ids[i]
  counts[2 * i] = retries
end
redis.call('HSET', count, unpack(counts))  -- the first write: out of memory Redis refuses the whole script
if ARGV[1] ~= '1' then
  -- Remove what an earlier message with the same id has left behind.
  redis.call('ZREM', pending, unpack(ids))
  redis.call('ZREM', unack, unpack(ids))
  redis.call('ZREM', dead, unpack(ids))
  redis.call('HDEL', attempts, unpack(ids))
  redis.call('HDEL', reason, unpack(ids))
  redis.call('HDEL', headers, unpack(ids))
  -- An entry that the earlier message left in retry must not count as a delivery of this one.
  local undelivered = {}
  local probe = string.sub(redis.pcall('HMGET', stats, 'probe')[1] or '', 1, 36)
  for i = 1, #ids do
    if ids[i] == probe then redis.pcall('HDEL', stats, 'probe') end  -- see reschedule
    undelivered[2 * i - 1] = ids[i]
    undelivered[2 * i] = '0'
  end
  if has_retry_entries then redis.call('HSET', attempts, unpack(undelivered)) end
end
if #packed > 0 then redis.call('HSET', headers, unpack(packed)) end
if later then
  local score = string.format('%.3f', due / 1000)  -- else Lua would format the number for each id
  local scores = {}
  for i = 1, #ids do
    scores[2 * i - 1] = score
    scores[2 * i] = ids[#ids + 1 - i]  -- in descending order: see ready2unack
  end
  redis.call('ZADD', pending, unpack(scores))
else
  is_probe = redis.call('LPUSH', ready, unpack(ids)) == #ids
end
-- Last: a message with a body exists, and a repeated send does nothing.
for i = 1, staged and #bodies or 0, 2 do
  redis.call('PERSIST', bodies[i + 1])  -- before it is a body: none may expire, even if the next command is refused
  local renamed = redis.pcall('RENAME', bodies[i + 1], bodies[i])
  if renamed.err then
    redis.pcall('PEXPIRE', bodies[i + 1], 1)
    return renamed
  end
end
if not staged then redis.call('MSET', unpack(bodies)) end
if ARGV[1] ~= '1' then redis.call('SREM', garbage, unpack(ids)) end  -- before this, a repeated send creates it again
if ttl > 0 then
  local life = math.max(1, math.ceil(due - now) + ttl)
  for i = 1, #bodies, 2 do redis.call('PEXPIRE', bodies[i], life) end
end
if staged and created < messages then redis.pcall('UNLINK', unpack(KEYS, 13 + messages)) end
local first = redis.pcall('HINCRBY', stats, 'sent', created) == created
if is_probe then redis.pcall('HSET', stats, 'probe', string.format('%s %.0f', ids[1], now * 1000)) end

-- A hint, so its errors are ignored: the marker wakes a consumer if a message is due now, or first in pending.
local head = later and redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')
if not later or tonumber(head[2]) == due / 1000 then
  redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w')
end

if created == messages then return first and -created or created end
return table.concat(answer) .. (first and 'N' or '')
