--! keys pending count garbage unack dead attempts reason headers stats wake retry keys waiting
-- The occurrences that a call stores, and the one that is stored. A key of a wrong type fails here, before the first
-- write.
redis.call('ZCARD', pending)
redis.call('ZCARD', unack)
redis.call('ZCARD', dead)
redis.call('SCARD', garbage)
redis.call('HLEN', count)
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('HLEN', headers)
local has_retry_entries = redis.call('LLEN', retry) > 0  -- see send
local ids = {}
for i = 1, #KEYS.body do ids[i] = string.sub(KEYS.body[i], -36) end
local waiting_id = string.sub(waiting, -36)
local outcomes, new, counted = '', {}, {}
if #ids > 0 then outcomes, new, counted = find_existing(ids) end

-- The place of the occurrence of this slot if it waits: if it is stored, was never delivered, and no operator has moved
-- it to another time.
local function waits_in(id, body, slot)
  if redis.call('EXISTS', body) == 0 or not redis.call('HGET', count, id) then return nil end
  if redis.call('ZSCORE', unack, id) or redis.call('ZSCORE', dead, id) then return nil end
  local last = redis.call('HGET', attempts, id)
  if last and last ~= '0' then return nil end  --! check delivered_occurrence_stays
  local due = redis.call('ZSCORE', pending, id)
  if not due then return 'ready' end
  return math.floor(due * 1000 + 0.5) == tonumber(slot) and 'pending' or nil
end
local function add(list, one, two)
  list[#list + 1] = one
  list[#list + 1] = two
end
local function life_of(slot)
  return tonumber(ARGV.ttl) > 0 and math.max(1, math.ceil(slot - now / 1000) + ARGV.ttl)
end

-- Stores those that do not exist, as send does. They go to pending even if they are due: then pending2ready moves them
-- to ready in the order of their slots.
local function store_occurrences()
  if #new == 0 then return end
  local counts, scores, packed, bodies = {}, {}, {}, {}
  for i = #ids, 1, -1 do  -- in descending order: see ready2unack
    if outcomes[i] == '1' then
      add(counts, ids[i], ARGV.retries)
      add(scores, string.format('%.3f', ARGV.occurrence[i] / 1000), ids[i])
      add(packed, ids[i], ARGV.header[i])
      add(bodies, KEYS.body[i], life_of(ARGV.occurrence[i]))
    end
  end
  if #counted > 0 then redis.call('HDEL', count, unpack(counted)) end  --! check refused_call_counts_nothing
  redis.call('ZADD', pending, unpack(scores))
  remove_earlier(new, has_retry_entries, true)  --! check new_message_leaves_nothing_earlier
  redis.call('HSET', headers, unpack(packed))
  for i = 1, #bodies, 2 do
    redis.call('SET', bodies[i], ARGV.payload, unpack(bodies[i + 1] and {'PX', bodies[i + 1]} or {}))
  end
  redis.call('SREM', garbage, unpack(new))  --! check new_message_leaves_garbage
  redis.call('HSET', count, unpack(counts))
  redis.pcall('HINCRBY', stats, 'sent', #new)
  set_marker(tonumber(scores[#scores - 1]) * 1000, true)  --! check occurrence_sets_marker
end

-- Removes the occurrence that waits, as cancel does. Its id may stay in a list, as a hint.
local function take_back(counted_as)
  redis.call('UNLINK', waiting)
  redis.call('HDEL', count, waiting_id)
  delete_metadata(waiting_id)
  redis.call('ZREM', pending, waiting_id)
  redis.pcall('HINCRBY', stats, counted_as, 1)
end
