-- ack: delete all that is stored of messages that were handled.
--
-- KEYS[1] unack     zset  id -> end of lease
-- KEYS[2] retry:cnt hash
-- KEYS[3] attempts  hash  id -> '<deliveries> <end of the last lease in us>'
-- KEYS[4] reason    hash
-- KEYS[5] pending   zset
-- KEYS[6] dead      zset
-- KEYS[7] garbage   set
-- KEYS[8] stats     hash
-- KEYS[9...]        body of each message; the last 36 characters are its id
-- ARGV[1] the field of stats that counts them: acked, expired or foreign
-- ARGV[2...] the receipt of each message: the end of its lease in us; the last one is also that of all further messages
--
-- The receipt must equal the score in unack. A message that has left unack is settled, too, if its last lease had this
-- end: it is in retry or dead, and was handled.
-- Returns the number of messages if all were settled, else a string of 'S' (settled), 'T' (stale), 'G' (gone).
local unack, count, attempts, reason = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local pending, dead, garbage, stats = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local messages = #KEYS - 8

local ids, receipts, times = {}, {}, {}
for i = 1, messages do
  ids[i] = string.sub(KEYS[8 + i], -36)
  receipts[i] = ARGV[1 + i] or receipts[i - 1]
  times[receipts[i]] = (times[receipts[i]] or 0) + 1
end

-- Messages that were taken together have the same lease end, and most are settled together: one query finds them all.
local held = {}
for receipt, some in pairs(times) do
  local ends = string.format('%.6f', receipt / 1000000)
  local found = some > 15 and redis.call('ZRANGEBYSCORE', unack, ends, ends, 'LIMIT', 0, 2 * some) or {}
  for i = 1, #found do held[found[i]] = receipt end
end

local function look(i)
  local id, receipt = ids[i], tonumber(receipts[i])
  local score = redis.call('ZSCORE', unack, id)
  if score then return math.floor(score * 1000000 + 0.5) == receipt and 'S' or 'T' end
  if redis.call('EXISTS', KEYS[8 + i]) == 0 or redis.call('SISMEMBER', garbage, id) == 1 then return 'G' end
  if redis.call('ZSCORE', pending, id) then return 'T' end
  local last = string.match(redis.call('HGET', attempts, id) or '', ' (%d+)$') or ''
  return tonumber(last) == receipt and 'L' or 'T'
end

local answer, was_late = {}, {}
for i = 1, messages do
  answer[i] = held[ids[i]] == receipts[i] and 'S' or look(i)
  if answer[i] == 'L' then answer[i], was_late[#was_late + 1] = 'S', ids[i] end
end
local letters, done, bodies = table.concat(answer), ids, {unpack(KEYS, 9)}
if string.find(letters, '[TG]') then
  done, bodies = {}, {}
  for i = 1, messages do
    if answer[i] == 'S' then done[#done + 1], bodies[#bodies + 1] = ids[i], KEYS[8 + i] end
  end
end
if #done == 0 then return letters end

local others = redis.call('HLEN', attempts) > 0
local reasons = redis.call('HLEN', reason) > 0
redis.call('HLEN', count)  -- a key of a wrong type fails here, before the first write
redis.call('ZCARD', dead)
redis.call('UNLINK', unpack(bodies))
redis.call('HDEL', count, unpack(done))
if others then redis.call('HDEL', attempts, unpack(done)) end
if reasons then redis.call('HDEL', reason, unpack(done)) end
if #was_late > 0 then redis.call('ZREM', dead, unpack(was_late)) end
redis.call('ZREM', unack, unpack(done))
redis.pcall('HINCRBY', stats, ARGV[1], #done)
return #done == messages and messages or letters
