-- bury: turn messages into dead letters, with a reason.
--! keys unack pending dead count attempts reason garbage ready retry stats running limits wake | body
--! args force reason search_lists
--! use ids ends leave
--
-- force: '1': also messages that a consumer holds
-- reason: '': keep the present one
-- search_lists: the ids are removed from the lists if neither is longer than this. Else they stay, and
--   ready2unack skips them
--
-- The counts are removed last. A dead letter that has one, or a place in pending, is buried again: Redis refused a
-- write of an earlier call.
-- If a lease is taken away, attempts keeps its end: if that delivery succeeds, its late ack settles the message. If a
-- message was never delivered, attempts says 0; without an entry a dead letter counts as delivered once.
-- Returns one character per message: 'S' dead now, 'D' already dead, 'H' held, 'G' no such message.

local time = redis.call('TIME')
local now = (time[1] * 1000000 + time[2]) / 1000000

local unack_scores = redis.call('ZMSCORE', unack, unpack(ids))
local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
local before = redis.call('HMGET', attempts, unpack(ids))
local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
local lists = math.max(redis.call('LLEN', ready), redis.call('LLEN', retry))
redis.call('HLEN', reason)

local buried, dead_scores, new_attempts, reasons, listed, bodies = {}, {}, {}, {}, {}, {}
-- Returns the answer for a message; if it is 'S', adds what to write for it.
local function plan(i, id)
  local placed = unack_scores[i] or in_pending[i] or in_dead[i]
  if finished[i] == 1 and not placed or redis.call('EXISTS', KEYS.body[i]) == 0 then return 'G' end
  if in_dead[i] and not (counts[i] or in_pending[i]) then return 'D' end  --! check dead_letter_is_not_changed
  if not (counts[i] or in_pending[i]) then return 'G' end  --! check message_cancelled_while_held_is_unknown
  local ends = unack_scores[i] and end_of(unack_scores[i])
  local held = ends and not is_backoff(ends)
  if held and ARGV.force ~= '1' then return 'H' end  --! check held_by_force_only
  buried[#buried + 1] = id
  bodies[#bodies + 1] = KEYS.body[i]
  dead_scores[#dead_scores + 1], dead_scores[#dead_scores + 2] = now, id
  reasons[#reasons + 1], reasons[#reasons + 2] = id, ARGV.reason
  local deliveries = before[i] and string.match(before[i], '^%d+') or ends and '1' or '0'
  if ends and deliveries == '0' then deliveries = '1' end  -- taken by a Go worker, which writes no attempts
  if held then deliveries = string.format('%s %.0f', deliveries, ends) end
  if held or not before[i] then new_attempts[#new_attempts + 1], new_attempts[#new_attempts + 2] = id, deliveries end
  if not (ends or in_pending[i]) then listed[#listed + 1] = id end
  return 'S'
end

local answer, seen = {}, {}
for i, id in ipairs(ids) do
  answer[i] = seen[id] and 'D' or plan(i, id)
  seen[id] = answer[i] == 'S' or seen[id]
end
if #buried == 0 then return table.concat(answer) end

redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
if #new_attempts > 0 then redis.call('HSET', attempts, unpack(new_attempts)) end
if ARGV.reason ~= '' then redis.call('HSET', reason, unpack(reasons)) end
for _, body in ipairs(bodies) do redis.call('PERSIST', body) end  --! check body_has_no_ttl
redis.call('ZADD', dead, unpack(dead_scores))
if lists <= tonumber(ARGV.search_lists) then
  for _, id in ipairs(listed) do
    redis.call('LREM', ready, 0, id)
    redis.call('LREM', retry, 0, id)
  end
end
redis.call('ZREM', pending, unpack(buried))  --! check message_leaves_pending
redis.call('ZREM', unack, unpack(buried))  --! check message_leaves_unack
redis.call('HDEL', count, unpack(buried))  --! check dead_letter_has_no_retries
leave(buried)  --! check buried_message_frees_its_place
redis.pcall('HINCRBY', stats, 'dead', #buried)
return table.concat(answer)
