-- restore: store exported messages again: as pending, ready or dead.
--
-- KEYS[1] pending   zset
-- KEYS[2] ready     list
-- KEYS[3] retry:cnt hash
-- KEYS[4] garbage   set
-- KEYS[5] unack     zset
-- KEYS[6] dead      zset
-- KEYS[7] attempts  hash
-- KEYS[8] reason    hash
-- KEYS[9] stats     hash
-- KEYS[10] retry    list
-- KEYS[11] headers  hash
-- KEYS[12...]       body of each message; the last 36 characters are its id. Then, if the payloads are staged, the key
--                   that holds the payload of each message, in the same order: see send
-- ARGV[1...] eight per message: 'dead' or 'alive'; when it became a dead letter or is due, us since 1970; retries;
--            deliveries so far; TTL in ms, '0' for none; reason; packed headers, '' for none; payload, '' if staged
--
-- A message that exists (see send) is not changed, so a repeated call is safe. Messages that are due become ready, in
-- the order given.
-- Returns one character per message: '1' created, '0' existed, 'C' was cancelled and a consumer still holds it.
local pending, ready, count, garbage, unack = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, attempts, reason, stats, retry, headers = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local messages = #ARGV / 8
local staged = #KEYS > 11 + messages
local ids = {}
for i = 1, messages do ids[i] = string.sub(KEYS[11 + i], -36) end
local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
local in_unack = redis.call('ZMSCORE', unack, unpack(ids))
local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
redis.call('LLEN', ready)
local has_retry_entries = redis.call('LLEN', retry) > 0  -- see send
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('HLEN', headers)

-- The arguments of the commands below, in pairs where the command takes pairs.
local new, bodies, deliveries, reasons, packed = {}, {}, {}, {}, {}
local dead_ids, dead_scores = {}, {}
local live_ids, counts_of_live, pending_scores, due_ids = {}, {}, {}, {}
local ttls = {}
local function add(list, one, two)
  list[#list + 1] = one
  list[#list + 1] = two
end

local function outcome_of(i, id, seen)
  if seen[id] then return '0' end
  if redis.call('EXISTS', KEYS[11 + i]) == 0 then return '1' end
  local alive = counts[i] and (finished[i] == 0 or in_unack[i] or in_pending[i])
  return (alive or in_dead[i]) and '0' or in_unack[i] and 'C' or '1'
end

local function create(i, id)
  local at = tonumber(ARGV[8 * i - 6])
  local delivered, failure, its_headers = ARGV[8 * i - 4], ARGV[8 * i - 2], ARGV[8 * i - 1]
  local ttl = tonumber(ARGV[8 * i - 3])
  local is_dead = ARGV[8 * i - 7] == 'dead'
  new[#new + 1] = id
  add(bodies, KEYS[11 + i], staged and KEYS[11 + messages + i] or ARGV[8 * i])
  if is_dead or delivered ~= '0' or has_retry_entries then add(deliveries, id, delivered) end
  if failure ~= '' then add(reasons, id, failure) end
  if its_headers ~= '' then add(packed, id, its_headers) end
  if ttl > 0 then add(ttls, KEYS[11 + i], ttl) end
  if is_dead then
    dead_ids[#dead_ids + 1] = id
    add(dead_scores, at / 1000000, id)
    return
  end
  live_ids[#live_ids + 1] = id
  add(counts_of_live, id, ARGV[8 * i - 5])
  if at > now then
    add(pending_scores, at / 1000000, id)
  else
    due_ids[#due_ids + 1] = id
  end
end

local answer, seen = {}, {}
for i, id in ipairs(ids) do
  answer[i] = outcome_of(i, id, seen)
  if answer[i] == '1' then
    seen[id] = true
    create(i, id)
  end
end
for i = 2, staged and #bodies or 0, 2 do
  if redis.call('EXISTS', bodies[i]) == 0 then
    return redis.error_reply('ERR restore: a payload that was stored ahead of the script (key ' .. bodies[i] ..
      ') is gone: it expired, or was deleted or evicted; nothing was stored; restore again')
  end
end
if #new == 0 then
  if staged then redis.pcall('UNLINK', unpack(KEYS, 12 + messages)) end
  return table.concat(answer)
end

-- The first write: out of memory all is refused.
if #live_ids > 0 then redis.call('HSET', count, unpack(counts_of_live)) end
if #dead_ids > 0 then
  redis.call('ZADD', dead, unpack(dead_scores))
  for _, id in ipairs(dead_ids) do redis.call('HDEL', count, id) end
end
redis.call('ZREM', pending, unpack(new))
redis.call('ZREM', unack, unpack(new))
if #live_ids > 0 then redis.call('ZREM', dead, unpack(live_ids)) end
redis.call('HDEL', attempts, unpack(new))
redis.call('HDEL', reason, unpack(new))
redis.call('HDEL', headers, unpack(new))
if #deliveries > 0 then redis.call('HSET', attempts, unpack(deliveries)) end
if #reasons > 0 then redis.call('HSET', reason, unpack(reasons)) end
if #packed > 0 then redis.call('HSET', headers, unpack(packed)) end
if #pending_scores > 0 then redis.call('ZADD', pending, unpack(pending_scores)) end
if #due_ids > 0 then redis.call('LPUSH', ready, unpack(due_ids)) end
-- Last, then out of garbage: see send.
for i = 1, staged and #bodies or 0, 2 do
  redis.call('PERSIST', bodies[i + 1])
  local renamed = redis.pcall('RENAME', bodies[i + 1], bodies[i])
  if renamed.err then
    redis.pcall('PEXPIRE', bodies[i + 1], 1)
    return renamed
  end
end
if not staged then redis.call('MSET', unpack(bodies)) end
redis.call('SREM', garbage, unpack(new))
for i = 1, #ttls, 2 do redis.call('PEXPIRE', ttls[i], math.min(ttls[i + 1], 9e15)) end
if staged and #new < messages then redis.pcall('UNLINK', unpack(KEYS, 12 + messages)) end
redis.pcall('HINCRBY', stats, 'sent', #new)
return table.concat(answer)
