--! keys unack count attempts reason pending dead garbage stats headers
-- The ack of `ack` and ack_paced: see there.
local messages = #KEYS.body

-- The hashes with metadata of some messages: mostly none. A key of a wrong type fails here, before the first write.
local function hashes()
  local found = {}
  if redis.call('EXISTS', attempts, reason, headers) == 0 then return found end
  if redis.call('HLEN', attempts) > 0 then found[#found + 1] = attempts end  --! check deliveries_are_deleted
  if redis.call('HLEN', reason) > 0 then found[#found + 1] = reason end  --! check reason_is_deleted
  if redis.call('HLEN', headers) > 0 then found[#found + 1] = headers end  --! check headers_are_deleted
  return found
end

-- Settles the messages, and returns the answer. `after`, if there is one, is called with the ids that have left unack.
local function ack(after)
  -- One message in its lease, the most frequent case, needs fewer commands. All other cases follow below.
  if messages == 1 then
    local body, receipt = KEYS.body[1], ARGV.receipt[1]
    local id = string.sub(body, -36)
    local score = redis.call('ZSCORE', unack, id)
    if score and math.floor(score * 1000000 + 0.5) == tonumber(receipt) then
      local noted = hashes()
      redis.call('HDEL', count, id)  --! check count_of_one_message_is_deleted
      redis.call('UNLINK', body)  --! check body_of_one_message_is_deleted
      for _, hash in ipairs(noted) do redis.call('HDEL', hash, id) end  --! check metadata_of_one_is_deleted
      redis.call('ZREM', unack, id)  --! check ack_removes_one_message_from_unack
      if after then after({id}) end
      redis.pcall('HINCRBY', stats, ARGV.counted_as, 1)
      return 1
    end
  end

  local ids = {}
  local sub = string.sub  -- local: faster in the loop over all messages
  for i = 1, messages do ids[i] = sub(KEYS.body[i], -36) end

  -- Messages that were taken together have the same lease end, and most are settled together: one query finds them all.
  local receipts = {unpack(ARGV.receipt)}
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
  local others = {}  -- positions of the messages that no query has found with their receipt
  for i = 1, messages do
    if leased[ids[i]] ~= (receipts[i] or last_receipt) then others[#others + 1] = i end
  end

  -- 'S', 'T' or 'G'; 'L': settled by the receipt of its last lease.
  local function outcome_of(i)
    local id = ids[i]
    local receipt = tonumber(receipts[i] or last_receipt)
    local score = redis.call('ZSCORE', unack, id)
    if score then return math.floor(score * 1000000 + 0.5) == receipt and 'S' or 'T' end
    if redis.call('SISMEMBER', garbage, id) == 1 then return 'G' end  --! check finished_is_gone
    local last = string.match(redis.call('HGET', attempts, id) or '', ' (%d+)$') or ''
    if tonumber(last) == receipt and not redis.call('ZSCORE', pending, id) then return 'L' end
    return redis.call('EXISTS', KEYS.body[i]) == 0 and 'G' or 'T'
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
  local settled, bodies, first_body = ids, KEYS.body  -- the keys of the bodies begin at first_body
  if next(unsettled) then
    local outcomes = {}
    settled, bodies, first_body = {}, {}, 1
    for i = 1, messages do
      outcomes[i] = unsettled[i] or 'S'
      if outcomes[i] == 'S' then
        settled[#settled + 1] = ids[i]
        bodies[#bodies + 1] = KEYS.body[i]
      end
    end
    answer = table.concat(outcomes)
    if #settled == 0 then return answer end  --! check stale_acks_alone_are_answered
  end

  local noted = hashes()
  redis.call('HLEN', count)  -- a key of a wrong type fails here, before the first write
  redis.call('ZCARD', dead)

  redis.call('UNLINK', unpack(bodies, first_body))  --! check body_is_deleted
  redis.call('HDEL', count, unpack(settled))  --! check count_is_deleted
  if #late > 0 then redis.call('ZREM', dead, unpack(late)) end  --! check late_ack_removes_message_from_dead
  --! check deliveries_reason_and_headers_are_deleted
  for _, hash in ipairs(noted) do redis.call('HDEL', hash, unpack(settled)) end
  redis.call('ZREM', unack, unpack(settled))  --! check ack_removes_message_from_unack
  if after then after(settled) end
  redis.pcall('HINCRBY', stats, ARGV.counted_as, #settled)
  return answer
end
