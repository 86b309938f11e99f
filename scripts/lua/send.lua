-- send: store new messages, all with the same due time, retries and TTL.
--
-- KEYS[1] pending   zset  id -> due time
-- KEYS[2] ready     list  due ids; pushed left, taken right
-- KEYS[3] retry:cnt hash  id -> retries left
-- KEYS[4] garbage   set    KEYS[5] unack zset    KEYS[6] dead zset
-- KEYS[7] attempts  hash   KEYS[8] reason hash   KEYS[9] stats hash   KEYS[10] wake zset
-- KEYS[11] retry    list
-- KEYS[12...]       body of each message; the last 36 characters are its id
-- ARGV[1] '1': the ids were just made and never sent, so none can exist; '0': look first
-- ARGV[2] delay in ms, or ''   ARGV[3] due time in ms since 1970, used when there is no delay
-- ARGV[4] retries
-- ARGV[5] TTL in ms after the due time, '0' for none
-- ARGV[6...] payload of each message
--
-- Finished, and so new, is what has no body, or is in garbage and in no zset; and what has no retries recorded, since
-- nothing would deliver it. But while a consumer holds what was cancelled, nothing is stored: it may settle by id alone.
-- Returns the number of messages if all are new, else a string of '1' (created), '0' (existed) and 'C' (cancelled, and
-- held still), one a message. If these are the first that the statistics know of, the number is negative, the string
-- has an 'N' at its end: then the set of queues may not have this one.
local pending, ready, count, garbage, unack = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, attempts, reason, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local wake, retry, messages, ttl = KEYS[10], KEYS[11], #KEYS - 11, tonumber(ARGV[5])

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local due = ARGV[2] ~= '' and math.ceil(now + ARGV[2]) or tonumber(ARGV[3])
local later = ARGV[2] ~= '' and tonumber(ARGV[2]) > 0 or ARGV[2] == '' and due > now

-- A key of a wrong type must stop us here, not half-way.
redis.call('ZCARD', pending)
redis.call('LLEN', ready)

local ids = {}
for i = 1, messages do ids[i] = string.sub(KEYS[11 + i], -36) end

local answer, created, left_behind = {}, messages, false
if ARGV[1] ~= '1' then
  local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
  local counts = redis.call('HMGET', count, unpack(ids))
  local new, seen = {}, {}
  local function judge(i, id)
    if seen[id] then return '0' end
    if redis.call('EXISTS', KEYS[11 + i]) == 0 then return '1' end
    if counts[i] and finished[i] == 0 or redis.call('ZSCORE', dead, id) then return '0' end
    local held = redis.call('ZSCORE', unack, id)
    if counts[i] and (held or redis.call('ZSCORE', pending, id)) then return '0' end
    return held and 'C' or '1'
  end
  for i, id in ipairs(ids) do
    answer[i] = judge(i, id)
    if answer[i] == '1' then seen[id], new[#new + 1] = true, id end
  end
  created = #new
  if created == 0 then return table.concat(answer) end
  left_behind = redis.call('LLEN', retry) > 0
  redis.call('ZCARD', unack)
  redis.call('ZCARD', dead)
  redis.call('HLEN', attempts)
  redis.call('HLEN', reason)
  ids = new
end

local bodies, counts, scores = {}, {}, {}
local score = string.format('%.3f', due / 1000)  -- a number would be printed anew for each
for i = 1, messages do
  if (answer[i] or '1') == '1' then bodies[#bodies + 1], bodies[#bodies + 2] = KEYS[11 + i], ARGV[5 + i] end
end
for i = 1, #ids do
  local id = ids[i]
  counts[2 * i - 1], counts[2 * i] = id, ARGV[4]
  scores[2 * i - 1], scores[2 * i] = score, id
end
redis.call('HSET', count, unpack(counts))  -- first: refused whole when Redis is out of memory
if ARGV[1] ~= '1' then
  -- What an earlier life of these ids may have left behind, whose body is gone or waits to be deleted.
  redis.call('ZREM', pending, unpack(ids))
  redis.call('ZREM', unack, unpack(ids))
  redis.call('ZREM', dead, unpack(ids))
  redis.call('HDEL', attempts, unpack(ids))
  redis.call('HDEL', reason, unpack(ids))
  -- A place that an earlier life left in retry must not be taken for a delivery of this one.
  local notes = {}
  for i = 1, #ids do notes[2 * i - 1], notes[2 * i] = ids[i], '0' end
  if left_behind then redis.call('HSET', attempts, unpack(notes)) end
end
if later then
  redis.call('ZADD', pending, unpack(scores))
else
  redis.call('LPUSH', ready, unpack(ids))
end
redis.call('MSET', unpack(bodies))  -- last: with its body a message exists, and to send it again changes nothing
if ARGV[1] ~= '1' then redis.call('SREM', garbage, unpack(ids)) end  -- until now to send it again began anew
if ttl > 0 then
  local life = math.max(1, math.ceil(due - now) + ttl)
  for i = 1, #bodies, 2 do redis.call('PEXPIRE', bodies[i], life) end
end
local first = redis.pcall('HINCRBY', stats, 'sent', created) == created

-- A hint, which must fail nothing: what is due now, or before all else that is pending, is worth a look.
local head = later and redis.pcall('ZRANGE', pending, 0, 0, 'WITHSCORES')
if not later or tonumber(head[2]) == due / 1000 then
  redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w')
end

if created == messages then return first and -created or created end
return table.concat(answer) .. (first and 'N' or '')
