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
-- KEYS[9] headers   hash
-- KEYS[10...]       body of each message; the last 36 characters are its id
-- ARGV[1] the field of stats that counts them: acked, expired or foreign
-- ARGV[2...] the receipt of each message: the end of its lease in us; the last one is also that of all further messages
--
-- The receipt must equal the score in unack. A message that has left unack is settled, too, if its last lease had this
-- end: it is in retry or dead, and was handled.
-- Returns the number of messages if all were settled, else a string of 'S' (settled), 'T' (stale), 'G' (gone).
local unack, count, attempts, reason = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local pending, dead, garbage, stats, headers = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local messages = #KEYS - 9

-- The hashes with metadata of some messages: mostly none. A key of a wrong type fails here, before the first write.
local function hashes()
  local found = {}
  if redis.call('EXISTS', attempts, reason, headers) == 0 then return found end
  if redis.call('HLEN', attempts) > 0 then found[#found + 1] = attempts end
  if redis.call('HLEN', reason) > 0 then found[#found + 1] = reason end
  if redis.call('HLEN', headers) > 0 then found[#found + 1] = headers end
  return found
end

-- One message in its lease, the most frequent case, needs fewer commands. All other cases follow below.
if messages == 1 then
  local body, receipt = unpack(KEYS, 10), unpack(ARGV, 2)
  local id = string.sub(body, -36)
  local score = redis.call('ZSCORE', unack, id)
  if score and math.floor(score * 1000000 + 0.5) == tonumber(receipt) then
    local noted = hashes()
    redis.call('HDEL', count, id)
    redis.call('UNLINK', body)
    for _, hash in ipairs(noted) do redis.call('HDEL', hash, id) end
    redis.call('ZREM', unack, id)
    redis.pcall('HINCRBY', stats, ARGV[1], 1)
    return 1
  end
end

local ids = {}
local sub = string.sub  -- a local: what is done for each message is most of the time
for i = 1, messages do ids[i] = sub(KEYS[9 + i], -36) end

-- Messages that were taken together have the same lease end, and most are settled together: one query finds them all.
local receipts = {unpack(ARGV, 2)}
local last_receipt = receipts[#receipts]
local uses = {[last_receipt] = messages - #receipts}  -- receipt -> number of messages with it
for _, receipt in ipairs(receipts) do uses[receipt] = (uses[receipt] or 0) + 1 end
local leased = {}  -- id -> receipt
for receipt, used in pairs(uses) do
  if used > 15 then
    local ends = string.format('%.6f', receipt / 1000000)
    local found = redis.call('ZRANGEBYSCORE', unack, ends, ends, 'LIMIT', 0, 2 * used)
    for i = 1, #found do leased[found[i]] = receipt end
  end
end
local others = {}  -- positions of the messages that were not found so
for i = 1, messages do
  if leased[ids[i]] ~= (receipts[i] or last_receipt) then others[#others + 1] = i end
end

-- 'S', 'T' or 'G'; 'L': settled by the receipt of its last lease.
local function outcome_of(i)
  local id = ids[i]
  local receipt = tonumber(receipts[i] or last_receipt)
  local score = redis.call('ZSCORE', unack, id)
  if score then return math.floor(score * 1000000 + 0.5) == receipt and 'S' or 'T' end
  if redis.call('EXISTS', KEYS[9 + i]) == 0 or redis.call('SISMEMBER', garbage, id) == 1 then return 'G' end
  if redis.call('ZSCORE', pending, id) then return 'T' end
  local last = string.match(redis.call('HGET', attempts, id) or '', ' (%d+)$') or ''
  return tonumber(last) == receipt and 'L' or 'T'
end

local unsettled, late = {}, {}  -- unsettled: position -> outcome
for _, i in ipairs(others) do
  local outcome = outcome_of(i)
  if outcome == 'L' then
    late[#late + 1] = ids[i]
  elseif outcome ~= 'S' then
    unsettled[i] = outcome
  end
end

local answer = messages
local settled, bodies, first_body = ids, KEYS, 10
if next(unsettled) then
  local outcomes = {}
  settled, bodies, first_body = {}, {}, 1
  for i = 1, messages do
    outcomes[i] = unsettled[i] or 'S'
    if outcomes[i] == 'S' then
      settled[#settled + 1] = ids[i]
      bodies[#bodies + 1] = KEYS[9 + i]
    end
  end
  answer = table.concat(outcomes)
  if #settled == 0 then return answer end
end

local noted = hashes()
redis.call('HLEN', count)  -- a key of a wrong type fails here, before the first write
redis.call('ZCARD', dead)

redis.call('UNLINK', unpack(bodies, first_body))
redis.call('HDEL', count, unpack(settled))
for _, hash in ipairs(noted) do redis.call('HDEL', hash, unpack(settled)) end
if #late > 0 then redis.call('ZREM', dead, unpack(late)) end
redis.call('ZREM', unack, unpack(settled))
redis.pcall('HINCRBY', stats, ARGV[1], #settled)
return answer
