-- purge_ids: delete messages by id if they are in the given state.
--
-- KEYS[1] pending   zset
-- KEYS[2] unack     zset
-- KEYS[3] dead      zset
-- KEYS[4] retry:cnt hash
-- KEYS[5] attempts  hash
-- KEYS[6] reason    hash
-- KEYS[7] garbage   set
-- KEYS[8] the list of the state; any list if the state is pending or dead
-- KEYS[9] stats     hash
-- KEYS[10...]       body of each message; the last 36 characters are its id
-- ARGV[1] the state: 'pending', 'dead', 'ready' or 'retry'
--
-- An id in a list counts as in ready2unack. Its state is retry if attempts has the end of its last lease, or if it is
-- among the next 100 of retry (Go workers do not write attempts); else ready. The id is removed from the list if it is
-- among the next 100; else it stays there, and ready2unack skips it.
-- Returns {one character per message: 'S' deleted, 'G' not in that state; number of entries removed from the state}.
local pending, unack, dead, count, attempts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local reason, garbage, list, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9]

local ids = {}
for i = 10, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], -36) end
local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
local in_unack = redis.call('ZMSCORE', unack, unpack(ids))
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
local before = redis.call('HMGET', attempts, unpack(ids))
redis.call('LLEN', list)
redis.call('HLEN', reason)

local function is_in_state(i)
  if ARGV[1] == 'dead' then return in_dead[i] and not (in_pending[i] or in_unack[i] and counts[i]) end
  if ARGV[1] == 'pending' then return in_pending[i] and not in_unack[i] end
  if not counts[i] or finished[i] == 1 or in_pending[i] or in_unack[i] or in_dead[i] then return false end
  if before[i] and string.find(before[i], ' ', 1, true) then return ARGV[1] == 'retry' end
  return ARGV[1] == 'ready' or redis.call('LPOS', list, ids[i], 'RANK', -1, 'MAXLEN', 100)
end

local answer, gone, bodies, seen = {}, {}, {}, {}
for i, id in ipairs(ids) do
  answer[i] = not seen[id] and is_in_state(i) and 'S' or 'G'
  seen[id] = true
  if answer[i] == 'S' then
    gone[#gone + 1] = id
    bodies[#bodies + 1] = KEYS[9 + i]
  end
end
if #gone == 0 then return {table.concat(answer), 0} end

local removed = #gone
redis.call('UNLINK', unpack(bodies))
redis.call('HDEL', count, unpack(gone))
redis.call('HDEL', attempts, unpack(gone))
redis.call('HDEL', reason, unpack(gone))
if ARGV[1] == 'ready' or ARGV[1] == 'retry' then
  removed = 0
  for _, id in ipairs(gone) do
    if redis.call('LPOS', list, id, 'RANK', -1, 'MAXLEN', 100) then
      removed = removed + redis.call('LREM', list, -1, id)
    end
  end
end
redis.call('ZREM', pending, unpack(gone))
redis.call('ZREM', dead, unpack(gone))
redis.pcall('HINCRBY', stats, 'purged', #gone)
return {table.concat(answer), removed}
