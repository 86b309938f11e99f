-- release: return held messages as if they had not been delivered; or move waiting messages to the head of ready.
--! keys unack ready pending count attempts reason garbage dead running limits wake paused | body
--! args delay pause why | receipt
--! use ids ends leave
--
-- delay: ms until they are due again; '0': at once
-- pause: if this releases a message by its receipt, the queue is paused for so many ms, unless it is paused; '0': it is
--   not paused
-- why: stored with the pause
-- receipt: or '-': a message in pending or in a backoff, without a receipt; or '*': as '-', also if a consumer holds it
--
-- Spends no retry. A delivery that is released by receipt is not counted; others stay counted.
-- The last message of a call is the next to be delivered.
-- Returns one character per message: 'S' released, 'P' released by the call that has paused the queue (one of them),
-- 'T' stale, 'H' held, 'G' neither in unack nor (for '-', '*') pending, or dead: then it leaves unack, where a late
-- nack of a Go worker put it. For '-' and '*' also 'G': it has no retry count, so ready2unack would not deliver it.
-- Such a message moves from unack to garbage, but stays in pending.

local delay = tonumber(ARGV.delay)

local time = redis.call('TIME')
local due = math.ceil(time[1] * 1000 + time[2] / 1000 + delay)

local scores = redis.call('ZMSCORE', unack, unpack(ids))
local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
local before = redis.call('HMGET', attempts, unpack(ids))
redis.call('LLEN', ready)
redis.call('HLEN', reason)
redis.call('SCARD', garbage)
redis.call('ZCARD', dead)

local function make_due(i)
  local id = ids[i]
  --! check released_message_leaves_garbage
  redis.call('SREM', garbage, id)  -- a Go worker put it there, but a zset still has it
  if delay == 0 then
    redis.call('RPUSH', ready, id)
    redis.call('ZREM', pending, id)  --! check released_message_leaves_pending
    return
  end
  local life = redis.call('PTTL', KEYS.body[i])  -- up to 2^63 ms; Redis can add 9e15 to its clock
  --! check ttl_moves_with_due_time
  if life > 0 then redis.call('PEXPIRE', KEYS.body[i], math.min(life + delay, 9e15)) end
  redis.call('ZADD', pending, due / 1000, id)
end

local function release_from_unack(i, by_receipt)
  local id = ids[i]
  if not counts[i] and redis.call('ZSCORE', dead, id) then
    redis.call('ZREM', unack, id)
    return 'G'
  end
  if not counts[i] then  -- cancelled while it was held
    redis.call('SADD', garbage, id)
    redis.call('HDEL', attempts, id)
    redis.call('HDEL', reason, id)
  else
    local deliveries = math.max(1, math.min(before[i] and string.match(before[i], '^%d+') or 1, 1e9))
    if by_receipt then deliveries = deliveries - 1 end  --! check released_delivery_is_not_counted
    make_due(i)
    -- Directly before it leaves unack: a call that Redis refuses before has not counted.
    if before[i] or deliveries > 0 then redis.call('HSET', attempts, id, deliveries) end
  end
  redis.call('ZREM', unack, id)
  return (counts[i] or by_receipt) and 'S' or 'G'
end

local function release(i)
  local receipt = ARGV.receipt[i]
  local ends = scores[i] and end_of(scores[i])
  if receipt == '-' or receipt == '*' then
    if ends then
      return (is_backoff(ends) or receipt == '*') and release_from_unack(i, false) or 'H'
    end
    if not (in_pending[i] and counts[i]) then return 'G' end
    make_due(i)
    return 'S'
  end
  if not ends then return 'G' end
  return ends == tonumber(receipt) and release_from_unack(i, true) or 'T'
end

redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
local answer = {}
-- Before a message is released: if Redis refuses the rest, the caller still has its receipt and calls again.
local has_paused = false
for i = 1, ARGV.pause ~= '0' and #ids or 0 do
  local ends = scores[i] and end_of(scores[i])
  if ends and ends == tonumber(ARGV.receipt[i]) then
    has_paused = redis.call('SET', paused, ARGV.why, 'NX', 'PX', ARGV.pause)  --! check released_message_pauses
    break
  end
end
for i = 1, #ids do answer[i] = release(i) end
local left = {}
for i, id in ipairs(ids) do
  if answer[i] == 'S' or answer[i] == 'G' then left[#left + 1] = id end
  if answer[i] == 'S' and has_paused then answer[i], has_paused = 'P', false end
end
leave(left)  --! check released_message_frees_its_place
return table.concat(answer)
