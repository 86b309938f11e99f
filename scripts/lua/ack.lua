-- ack: remove every trace of messages that are done.
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
-- ARGV[1] the field of stats to count them in: acked, or expired
-- ARGV[2...] the receipt of each message: the end of its lease in us
--
-- The receipt must be what unack says. A message that has left unack is settled if its last lease was this one: it is
-- in retry or dead then, and the work is done.
-- Returns the number of messages if all were settled, else a string of 'S' (settled), 'T' (stale), 'G' (gone).
local unack, count, attempts, reason = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local pending, dead, garbage, stats = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local messages = #KEYS - 8

local ids = {}
for i = 1, messages do ids[i] = string.sub(KEYS[8 + i], -36) end
local scores = redis.call('ZMSCORE', unack, unpack(ids))

local function late(i)
  local id = ids[i]
  if redis.call('EXISTS', KEYS[8 + i]) == 0 or redis.call('SISMEMBER', garbage, id) == 1 then return 'G' end
  if redis.call('ZSCORE', pending, id) then return 'T' end
  local last = string.match(redis.call('HGET', attempts, id) or '', ' (%d+)$') or ''
  return tonumber(last) == tonumber(ARGV[1 + i]) and 'S' or 'T'
end

local answer, done, bodies, was_late = {}, {}, {}, {}
for i = 1, messages do
  if not scores[i] then
    answer[i] = late(i)
    if answer[i] == 'S' then was_late[#was_late + 1] = ids[i] end
  else
    answer[i] = math.floor(scores[i] * 1000000 + 0.5) == tonumber(ARGV[1 + i]) and 'S' or 'T'
  end
  if answer[i] == 'S' then
    done[#done + 1] = ids[i]
    bodies[#bodies + 1] = KEYS[8 + i]
  end
end
if #done == 0 then return table.concat(answer) end

local others = redis.call('HLEN', attempts) > 0
local reasons = redis.call('HLEN', reason) > 0
redis.call('HLEN', count)  -- a key of a wrong type must stop us here
redis.call('HLEN', stats)
redis.call('ZCARD', dead)
redis.call('UNLINK', unpack(bodies))
redis.call('HDEL', count, unpack(done))
if others then redis.call('HDEL', attempts, unpack(done)) end
if reasons then redis.call('HDEL', reason, unpack(done)) end
if #was_late > 0 then redis.call('ZREM', dead, unpack(was_late)) end
redis.call('ZREM', unack, unpack(done))
redis.call('HINCRBY', stats, ARGV[1], #done)
return #done == messages and messages or table.concat(answer)
