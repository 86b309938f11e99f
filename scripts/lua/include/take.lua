--! keys ready retry unack pending dead count attempts garbage stats
-- The take of ready2unack and take_paced: see ready2unack.
local retry_max = tonumber(ARGV.retry_max)
local poison_max, poison_skip = tonumber(ARGV.poison_max), tonumber(ARGV.poison_skip)

local lease = now + ARGV.lease
if not (lease < 2 ^ 53) then
  return redis.error_reply('ERR a lease of ' .. ARGV.lease .. ' us: it must end before 2^53 us')
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

-- Takes at most `total` ids, `retry_share` of them reserved for retry. Returns the answer, or an error of Redis.
-- If there are functions `use` and `correct`: directly before ids are leased, `use` gets what ZADD is to add, and their
-- number; if some have no new lease after all, `correct` gets all these ids.
local function take(total, retry_share, use, correct)
  -- Choose ids of retry. The lists are read now and trimmed last: if a write in between fails, they still have the ids.
  local ready_length = redis.call('LLEN', ready)
  local reserved = math.min(retry_share, total)
  local wanted = math.min(retry_max, total - math.min(total - reserved, ready_length), retry_length)
  local function search_retry(most)
    local found = redis.call('LRANGE', retry, -searched - most, -searched - 1)
    local last = redis.call('HMGET', attempts, unpack(found))
    local alive = redis.call('HMGET', count, unpack(found))
    for i = #found, 1, -1 do
      if #from_retry == wanted then return end  --! check no_more_than_wanted
      -- The last lease ran out: it did not end in a backoff (see nack).
      local ran_out = last[i] and string.find(last[i], '^%d+ %d+$') and string.sub(last[i], -3) ~= '000'
      local is_poison = ran_out and alive[i] and not redis.call('ZSCORE', unack, found[i])
      local skip = is_poison and #poison == poison_max
      if skip then further_poison = further_poison + 1 end  --! check poison_is_counted
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

  -- The probe.
  local noted = #ids > 0 and redis.pcall('HGET', stats, 'probe')
  local probe, since
  if type(noted) == 'string' then probe, since = string.match(noted, '^(.+) (%d+)$') end
  local function is_taken(id)  -- from ready or, if it has an old place there, from retry
    for i = 1, #ids do
      if ids[i] == id then return true end
    end
    return false
  end
  if probe and is_taken(probe) then late = string.format('%s %.0f', probe, math.max(0, now - since)) end
  local function waits(id)
    if not redis.call('HMGET', count, id)[1] then return false end  --! check cancelled_probe_is_none
    local last = redis.call('HMGET', attempts, id)[1]
    --! check probe_in_retry_is_none
    if string.find(last or '', '^%d+ ') then return false end  -- it is in retry, or goes there
    return not redis.call('ZSCORE', unack, id) and not redis.call('ZSCORE', pending, id)
  end
  local needs_probe = (new > 0 or late ~= '') and ready_length > new and not (probe and late == '' and waits(probe))
  local newest = needs_probe and redis.call('LRANGE', ready, 0, 0)[1] or ''
  local next_probe = #newest == 36 and not is_taken(newest) and waits(newest) and newest

  lease = unique_lease(lease)  --! check lease_end_is_unique
  local score = string.format('%.6f', lease / 1000000)  -- else Lua would format the number for each id

  -- Usually all ids are alike: first deliveries, with the same count, in no other place. Then there is less to decide.
  local alike = counts[1] and #from_retry == 0
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
      retry_length = retry_length + 1  --! check moved_to_retry_is_counted
    elseif counted and not elsewhere and #id == 36 then
      taken[#taken + 1] = id
      positions[#taken] = i
    elseif not elsewhere and not redis.call('ZSCORE', unack, id) then
      finished[#finished + 1] = id
      if counted then foreign[#foreign + 1] = string.sub(id, 1, 64) end
    end
  end
  local found = #taken
  if #finished > 0 then redis.call('SCARD', garbage) end  -- a key of a wrong type fails here, before the first write

  -- In a short sorted set Redis looks for the place of each new member from the start: with members in descending order
  -- it is found at once, and ids mostly ascend.
  local leases = {}
  for n = 1, found do
    leases[2 * n - 1] = score
    leases[2 * n] = taken[found + 1 - n]
  end

  -- Write: the new place first.
  -- Changes nothing: so that Redis accepts the rest when out of memory (see nack), and refuses it all to a user without
  -- the right to trim the lists below.
  redis.call('LTRIM', retry, 0, -1)
  if #finished > 0 then redis.call('SADD', garbage, unpack(finished)) end  --! check id_without_count_goes_to_garbage
  if #skipped > 0 then redis.call('LPUSH', retry, unpack(skipped)) end  --! check skipped_message_stays_in_retry
  -- NX: a held message keeps its lease. If fewer were added than taken, the score shows which ones have the new lease.
  if use and found > 0 then use(leases, found) end
  local added = found > 0 and redis.call('ZADD', unack, 'NX', unpack(leases)) or 0
  if correct and added < found then correct(taken) end
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
  local noted_again = #again > 0 and redis.pcall('HSET', attempts, unpack(again))  --! check redelivery_is_counted
  if type(noted_again) == 'table' then
    -- Redis has refused it. The leases are taken back: no consumer would have them, and their ends would spend retries.
    --! check refused_take_leaves_no_lease
    redis.call('ZREM', unack, unpack(redis.call('ZRANGEBYSCORE', unack, score, score)))
    if correct then correct(taken) end
    return noted_again
  end
  if new > 0 then redis.call('LTRIM', ready, 0, -new - 1) end  --! check taken_message_leaves_ready
  if searched > 0 then redis.call('LTRIM', retry, 0, -searched - 1) end
  if added > 0 then redis.pcall('HINCRBY', stats, 'delivered', added) end
  if #foreign > 0 then redis.pcall('HINCRBY', stats, 'foreign', #foreign) end
  if next_probe then
    note_probe(next_probe, now)
  elseif late ~= '' or probe and needs_probe then
    --! check taken_probe_is_deleted
    redis.pcall('HDEL', stats, 'probe')  -- or it would count from then on if it became ready again
  end
  return answer()
end
