-- ready2unack: lease due messages to a consumer.
--
-- KEYS[1] ready     list  taken from the right
-- KEYS[2] retry     list  taken from the right
-- KEYS[3] unack     zset  id -> end of lease
-- KEYS[4] pending   zset
-- KEYS[5] dead      zset
-- KEYS[6] retry:cnt hash  id -> retries left
-- KEYS[7] attempts  hash  id -> '<deliveries> <end of the last lease in us>', of ids delivered before
-- KEYS[8] garbage   set
-- KEYS[9] paused    string, exists while the queue is paused
-- KEYS[10] stats    hash
-- KEYS[11] headers  hash
-- ARGV[1] most ids to take
-- ARGV[2] how many of them are reserved for retry
-- ARGV[3] most ids to take from retry
-- ARGV[4] duration of the lease in us
-- ARGV[5] most possible poison messages to take
-- ARGV[6] most further ones to skip, to reach the messages behind them
--
-- An id in a list is a hint: it counts only if it has a retry count and is in none of pending, unack, dead. If attempts
-- has the end of its last lease, it may only be taken from retry, for a free worker; from ready it is moved there.
-- A possible poison message is an id in retry that counts and whose last lease ran out: it may have crashed its
-- process, and could crash the next one, with all messages that it holds. Skipped ones go to the left end of retry.
-- When more than ARGV[6] are found, nothing more is taken from retry.
-- The probe is a field of stats, '<id> <us>': an id of ready, and since when it has been due. It is noted when ready
-- was empty. When it has been taken, here or by a program that knows no probe, the newest id of ready follows: the ids
-- before it have been due for longer. An id whose last lease is in attempts counts as taken.
-- An id that counts but is not 36 characters long goes to garbage; the caller checks the characters of the others.
-- Returns {ids popped, end of lease in us, time of Redis in us, first deliveries, redeliveries, ids popped from retry,
-- ids left in retry (0 while the queue is paused: none of them can be taken), possible poison messages taken, further
-- ones found, number of foreign ids, first foreign id, retries left of the first id taken, retries left of the ids that
-- have others, 1 if messages of the queue have headers, the probe if it was popped}, with redeliveries as 'id
-- deliveries id deliveries ...', the retries left of others as 'id retries id retries ...', and the probe as '<id> <for
-- how many us it has been due>'.
local ready, retry, unack, pending, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local count, attempts, garbage, paused, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local headers = KEYS[11]
local total, retry_share, retry_max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local poison_max, poison_skip = tonumber(ARGV[5]), tonumber(ARGV[6])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = now + ARGV[4]
if not (lease < 2 ^ 53) then
  return redis.error_reply('ERR a lease of ' .. ARGV[4] .. ' us: it must end before 2^53 us')
end

local retry_length = redis.call('LLEN', retry)
local from_retry = {}     -- ids of retry to take, if they count
local skipped = {}        -- ids that go to the left end of retry
local poison = {}         -- possible poison messages in from_retry
local further_poison = 0  -- possible poison messages beyond poison_max
local searched = 0        -- ids of retry that were read and decided about
local ids = {}            -- all ids to take, if they count: those of ready, then those of retry
local first, again = {}, {}
local retries             -- of the first id taken: nearly always those of all
local first_count         -- the value that they were read from
local other_retries = {}
local foreign = {}
local has_headers = 0
local late = ''
local function answer()
  return {
    #ids,
    string.format('%.0f', lease),
    string.format('%.0f', now),
    table.concat(first, ' '),
    table.concat(again, ' '),
    #from_retry,
    retry_length - #from_retry,
    table.concat(poison, ' '),
    further_poison,
    #foreign,
    foreign[1] or '',
    retries or '',
    table.concat(other_retries, ' '),
    has_headers,
    late
  }
end
if redis.call('EXISTS', paused, headers) > 0 then
  if redis.call('EXISTS', paused) == 1 then
    retry_length = 0
    return answer()
  end
  has_headers = math.min(redis.call('HLEN', headers), 1)
end

-- Choose ids of retry. The lists are read now and trimmed last: if a write in between fails, they still have the ids.
local ready_length = redis.call('LLEN', ready)
local reserved = math.min(retry_share, total)
local wanted = math.min(retry_max, total - math.min(total - reserved, ready_length), retry_length)
local function search_retry(most)
  local found = redis.call('LRANGE', retry, -searched - most, -searched - 1)
  local last = redis.call('HMGET', attempts, unpack(found))
  local alive = redis.call('HMGET', count, unpack(found))
  for i = #found, 1, -1 do
    if #from_retry == wanted then return end
    -- The last lease ran out: it did not end in a backoff (see nack).
    local ran_out = last[i] and string.find(last[i], '^%d+ %d+$') and string.sub(last[i], -3) ~= '000'
    local is_poison = ran_out and alive[i] and not redis.call('ZSCORE', unack, found[i])
    local skip = is_poison and #poison == poison_max
    if skip then further_poison = further_poison + 1 end
    if further_poison > poison_skip then return end
    table.insert(skip and skipped or from_retry, found[i])
    if is_poison and not skip then table.insert(poison, found[i]) end
    searched = searched + 1
  end
end
if wanted > 0 then search_retry(wanted) end
if #from_retry < wanted and further_poison <= poison_skip and searched < retry_length then
  search_retry(wanted - #from_retry + poison_skip - further_poison)
end

-- Choose ids of ready.
local new = math.min(total - #from_retry, ready_length)
local found_ready = new > 0 and redis.call('LRANGE', ready, -new, -1) or {}
for i = 1, new do ids[i] = found_ready[new + 1 - i] end
local is_from_retry = {}
for i, id in ipairs(from_retry) do
  ids[new + i] = id
  is_from_retry[id] = true
end
if #ids + searched == 0 then return answer() end

-- Read what is stored of them.
local read_ids = #ids > 0 and ids or {''}
local function scores(zset)
  return redis.call('ZCARD', zset) > 0 and redis.call('ZMSCORE', zset, unpack(read_ids)) or {}
end
local counts = redis.call('HMGET', count, unpack(read_ids))
local in_pending = scores(pending)
local in_dead = scores(dead)
local before = redis.call('HLEN', attempts) > 0 and redis.call('HMGET', attempts, unpack(read_ids)) or {}
redis.call('SCARD', garbage)  -- a key of a wrong type fails here, before the first write

-- The probe.
local noted = new > 0 and redis.pcall('HGET', stats, 'probe')
local probe, since = string.match(type(noted) == 'string' and noted or '', '^(.+) (%d+)$')
for i = 1, new do
  if ids[i] == probe then late = string.format('%s %.0f', probe, math.max(0, now - since)) end
end
local function waits(id)
  if late ~= '' or not redis.call('HMGET', count, id)[1] then return false end
  local last = redis.call('HMGET', attempts, id)[1]
  if string.find(last or '', '^%d+ ') then return false end  -- it is in retry, or goes there
  return not redis.call('ZSCORE', unack, id) and not redis.call('ZSCORE', pending, id)
end
local needs_probe = new > 0 and ready_length > new and not (probe and waits(probe))
local next_probe = needs_probe and redis.call('LRANGE', ready, 0, 0)[1] or ''

-- The end of the lease must be unique in unack, and no whole millisecond, which would be a backoff: see nack. The span
-- from the wanted end is doubled until it has an unused one; then a binary search finds that one.
local function used(from, length)
  return redis.call('ZCOUNT', unack, from / 1e6, (from + length - 1) / 1e6)
    + math.floor((from + length - 1) / 1000) - math.floor((from - 1) / 1000)
end
local span = 1
while used(lease, span) >= span do span = 2 * span end
while span > 1 do
  span = span / 2
  if used(lease, span) >= span then lease = lease + span end
end
local score = string.format('%.6f', lease / 1000000)  -- else Lua would format the number for each id

-- Usually all ids are alike: first deliveries, with the same count, in no other place. Then there is less to decide.
local alike = new > 0 and counts[1] and #from_retry == 0
for i = 1, #ids do
  if not alike then break end
  alike = counts[i] == counts[1] and #ids[i] == 36 and not (in_pending[i] or in_dead[i] or before[i])
end

-- Decide for each id: unack, back to retry, or garbage.
local taken = alike and ids or {}
local positions = {}  -- in ids, of those in taken; empty if all are alike
local finished = {}
for i = 1, alike and 0 or #ids do
  local id, counted = ids[i], counts[i]
  local elsewhere = in_pending[i] or in_dead[i]
  if i <= new and counted and not elsewhere and before[i] and string.find(before[i], '^%d+ ') then
    skipped[#skipped + 1] = id
    retry_length = retry_length + 1
  elseif counted and not elsewhere and #id == 36 then
    taken[#taken + 1] = id
    positions[#taken] = i
  elseif not elsewhere and not redis.call('ZSCORE', unack, id) then
    finished[#finished + 1] = id
    if counted then foreign[#foreign + 1] = string.sub(id, 1, 64) end
  end
end
local found = #taken

-- In a short sorted set Redis looks for the place of each new member from the start: with members in descending order
-- it is found at once, and ids mostly ascend.
local leases = {}
for n = 1, found do
  leases[2 * n - 1] = score
  leases[2 * n] = taken[found + 1 - n]
end

-- Write: the new place first.
redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
-- NX: a held message keeps its lease. If fewer were added than taken, the score shows which ones have the new lease.
local added = found > 0 and redis.call('ZADD', unack, 'NX', unpack(leases)) or 0
local function retries_of(i)  -- another program may have written the count
  return string.sub(string.match(counts[i], '^%d+$') or '0', 1, 19)
end
local all_first = alike and added == found
if all_first then first, retries = ids, retries_of(1) end
local seen = {}
for n = 1, all_first and 0 or found do
  local i, id = positions[n] or n, taken[n]
  if added == found or not seen[id] and tonumber(redis.call('ZSCORE', unack, id)) == tonumber(score) then
    local recorded = before[i] and string.match(before[i], '^%d+')
    local deliveries = recorded and math.min(recorded, 1e9) or #from_retry > 0 and is_from_retry[id] and 1
    if deliveries then
      again[#again + 1] = id
      again[#again + 1] = deliveries + 1
    else
      first[#first + 1] = id
    end
    if counts[i] ~= first_count then
      local left = retries_of(i)
      first_count = first_count or counts[i]
      retries = retries or left
      if left ~= retries then
        other_retries[#other_retries + 1] = id
        other_retries[#other_retries + 1] = left
      end
    end
    if added < found then seen[id] = true end
  end
end
if #again > 0 then redis.call('HSET', attempts, unpack(again)) end
if #finished > 0 then redis.call('SADD', garbage, unpack(finished)) end
if #skipped > 0 then redis.call('LPUSH', retry, unpack(skipped)) end
if new > 0 then redis.call('LTRIM', ready, 0, -new - 1) end
if searched > 0 then redis.call('LTRIM', retry, 0, -searched - 1) end
if added > 0 then redis.pcall('HINCRBY', stats, 'delivered', added) end
if #foreign > 0 then redis.pcall('HINCRBY', stats, 'foreign', #foreign) end
if #next_probe == 36 then
  redis.pcall('HSET', stats, 'probe', string.format('%s %.0f', next_probe, now))
elseif late ~= '' then
  redis.pcall('HDEL', stats, 'probe')  -- or it would count from then on if it became ready again
end
return answer()
