-- pending2unack: lease due messages to a consumer, as pending2ready followed by ready2unack does.
--
-- KEYS[1] pending   zset    id -> due time
-- KEYS[2] ready     list    pushed left, taken right
-- KEYS[3] retry     list    pushed left, taken right
-- KEYS[4] unack     zset    id -> end of lease
-- KEYS[5] dead      zset
-- KEYS[6] retry:cnt hash    id -> retries left
-- KEYS[7] attempts  hash    id -> '<deliveries> <end of the last lease in us>', of ids delivered before
-- KEYS[8] garbage   set
-- KEYS[9] paused    string  exists while the queue is paused
-- KEYS[10] stats    hash
-- KEYS[11] watch    string  see pending2ready
-- KEYS[12] headers  hash
-- ARGV[1] most ids to move
-- ARGV[2] '1': return the ids
-- ARGV[3] name of the calling consumer, which has room for messages
-- ARGV[4] us until it calls again in any case
-- ARGV[5] most ids to take: the first of those that move; the others go to ready
-- ARGV[6] duration of the lease in us
--
-- Takes ids only if ready and retry are empty, the queue is not paused, and pending has no empty member. Else this is
-- pending2ready: the ids in the lists must be taken before those in pending, and ready2unack gives retry its share.
-- The first id that goes to ready, if that was empty, is the probe: see ready2unack.
-- For each id taken the result (unack, retry or garbage) is that of ready2unack for the same id in ready. An empty
-- member of unack, which ready2unack removes, stays.
-- Returns {what pending2ready returns, what ready2unack returns}, or only the first of them if this was pending2ready.
local pending, ready, retry, unack, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local count, attempts, garbage, paused, stats = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local watch, headers = KEYS[11], KEYS[12]
local limit, total = tonumber(ARGV[1]), tonumber(ARGV[5])
local caller = ARGV[3]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = now + ARGV[6]
if not (lease < 2 ^ 53) then
  return redis.error_reply('ERR a lease of ' .. ARGV[6] .. ' us: it must end before 2^53 us')
end

local existing = redis.call('EXISTS', ready, retry, paused, headers)
local takes = existing == 0 or redis.call('EXISTS', ready, retry, paused) == 0
local has_headers = existing > 0 and takes and math.min(redis.call('HLEN', headers), 1) or 0
if not takes then redis.call('LLEN', ready) end  -- a key of a wrong type fails here, before the first write
local ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
local new = takes and math.min(total, #ids) or 0  -- number of ids to take, if they count

-- Read what is stored of the ids to take.
local counts, in_dead, before = {}, {}, {}
if new > 0 then
  counts = redis.call('HMGET', count, unpack(ids, 1, new))
  in_dead = redis.call('ZCARD', dead) > 0 and redis.call('ZMSCORE', dead, unpack(ids, 1, new)) or {}
  before = redis.call('HLEN', attempts) > 0 and redis.call('HMGET', attempts, unpack(ids, 1, new)) or {}
end

-- The end of the lease is chosen as in ready2unack.
local function used(from, length)
  return redis.call('ZCOUNT', unack, from / 1e6, (from + length - 1) / 1e6)
    + math.floor((from + length - 1) / 1000) - math.floor((from - 1) / 1000)
end
local span = 1
while new > 0 and used(lease, span) >= span do span = 2 * span end
while span > 1 do
  span = span / 2
  if used(lease, span) >= span then lease = lease + span end
end
local score = string.format('%.6f', lease / 1000000)  -- else Lua would format the number for each id

-- Decide for each id to take: unack, retry, or garbage.
local found, taken = 0, {}  -- found: number of ids to lease; taken: their positions in ids
local skipped, finished, foreign = {}, {}, {}
for i = 1, new do
  local id = ids[i]
  local alive = counts[i] and not in_dead[i]
  if alive and before[i] and string.find(before[i], '^%d+ ') then
    skipped[#skipped + 1] = id
  elseif alive and #id == 36 then
    found = found + 1
    taken[found] = i
  elseif not in_dead[i] and not redis.call('ZSCORE', unack, id) then
    finished[#finished + 1] = id
    if counts[i] then foreign[#foreign + 1] = string.sub(id, 1, 64) end
  end
end
if #finished > 0 then redis.call('SCARD', garbage) end  -- a key of a wrong type fails here

-- So that Redis accepts the rest when out of memory: see nack. Removing an empty member changes the ids and ranks.
if #ids > 0 and redis.call('ZREM', pending, '') == 1 then
  ids = redis.call('ZRANGEBYSCORE', pending, '-inf', now / 1000000, 'LIMIT', 0, limit)
  takes, new, found = false, 0, 0
  skipped, finished, foreign = {}, {}, {}
end

-- When an id of pending was due.
local function due_of(rank)
  return math.max(0, (redis.pcall('ZRANGE', pending, rank, rank, 'WITHSCORES')[2] or 0) * 1000000)
end
local late = new > 0 and #ids[1] == 36 and string.format('%s %.0f', ids[1], math.max(0, now - due_of(0))) or ''

local leases = {}
for n = found, 1, -1 do  -- in descending order: see ready2unack
  leases[#leases + 1] = score
  leases[#leases + 1] = ids[taken[n]]
end

-- Write: the new place first.
-- NX: a held message keeps its lease. If fewer were added than taken, the score shows which ones have the new lease.
local added = found > 0 and redis.call('ZADD', unack, 'NX', unpack(leases)) or 0
local first, again, other_retries = {}, {}, {}
local retries       -- of the first id taken: nearly always those of all
local stored, left  -- a count as it is stored, and the retries left that it stands for
for n = 1, found do
  local i = taken[n]
  local id = ids[i]
  if added == found or tonumber(redis.call('ZSCORE', unack, id)) == tonumber(score) then
    local deliveries = before[i] and string.match(before[i], '^%d+')
    if deliveries then
      again[#again + 1] = id
      again[#again + 1] = math.min(deliveries, 1e9) + 1
    else
      first[#first + 1] = id
    end
    if counts[i] ~= stored then
      stored = counts[i]
      left = string.sub(string.match(stored, '^%d+$') or '0', 1, 19)  -- another program may have written it
    end
    retries = retries or left
    if left ~= retries then
      other_retries[#other_retries + 1] = id
      other_retries[#other_retries + 1] = left
    end
  end
end
if #again > 0 then redis.call('HSET', attempts, unpack(again)) end
if #finished > 0 then redis.call('SADD', garbage, unpack(finished)) end
if #skipped > 0 then redis.call('LPUSH', retry, unpack(skipped)) end
if #ids > new and redis.call('LPUSH', ready, unpack(ids, new + 1)) == #ids - new and #ids[new + 1] == 36 then
  redis.pcall('HSET', stats, 'probe', string.format('%s %.0f', ids[new + 1], due_of(new)))
end
if #ids > 0 then redis.call('ZREMRANGEBYRANK', pending, 0, #ids - 1) end
if added > 0 then redis.pcall('HINCRBY', stats, 'delivered', added) end
if #foreign > 0 then redis.pcall('HINCRBY', stats, 'foreign', #foreign) end

-- The next due time.
local due = nil
local wait = -1
local head = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
if head[2] then
  due = math.floor(head[2] * 1000000 + 0.5)
  wait = math.max(0, due - now)
end

-- The watch for that time: see pending2ready.
local value = redis.pcall('GET', watch)
local watched, watcher
if type(value) == 'string' then watched, watcher = string.match(value, '^(%d+) (.+)$') end
local function is_watched()
  if not watcher or watcher == caller or tonumber(watched) > due then return false end
  return tonumber(watched) >= now - 200000 and redis.pcall('PTTL', watch) ~= -1
end
local must_call = 0
if due and wait < tonumber(ARGV[4]) and not is_watched() then
  must_call = 1
  redis.pcall('SET', watch, string.format('%.0f %s', due, caller), 'PX', math.ceil(wait / 1000) + 200)
elseif watcher == caller then
  redis.pcall('UNLINK', watch)
end

local moved = {}
for i = 1, ARGV[2] == '1' and #ids or 0 do
  if #ids[i] == 36 then moved[#moved + 1] = ids[i] end  -- else it is no id: see ready2unack
end
local promoted = {#ids, wait, table.concat(moved, ' '), must_call}
if not takes then return {promoted} end
return {
  promoted,
  {
    new,
    string.format('%.0f', lease),
    string.format('%.0f', now),
    table.concat(first, ' '),
    table.concat(again, ' '),
    0,
    #skipped,
    '',
    0,
    #foreign,
    foreign[1] or '',
    retries or '',
    table.concat(other_retries, ' '),
    has_headers,
    late
  }
}
