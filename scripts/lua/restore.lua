-- restore: store exported messages again: as pending, ready or dead.
--
-- KEYS[1] pending   zset   KEYS[2] ready  list   KEYS[3] retry:cnt hash   KEYS[4] garbage set
-- KEYS[5] unack     zset   KEYS[6] dead   zset
-- KEYS[7] attempts  hash   KEYS[8] reason hash   KEYS[9] stats     hash
-- KEYS[10] retry    list
-- KEYS[11...]       body of each message; the last 36 characters are its id
-- ARGV[1...] seven per message: 'dead' or 'alive'; when it became a dead letter or is due, us since 1970; retries;
--            deliveries so far; TTL in ms, '0' for none; reason; payload
--
-- A message that exists (see send) is not changed, so a repeated call is safe. Messages that are due become ready, in
-- the order given.
-- Returns one character per message: '1' created, '0' existed, 'C' was cancelled and a consumer still holds it.
local pending, ready, count, garbage, unack = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, attempts, reason, stats, retry = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local ids = {}
for i = 11, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], -36) end
local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
local held = redis.call('ZMSCORE', unack, unpack(ids))
local waits = redis.call('ZMSCORE', pending, unpack(ids))
local given_up = redis.call('ZMSCORE', dead, unpack(ids))
redis.call('LLEN', ready)
local left_behind = redis.call('LLEN', retry) > 0  -- see send
redis.call('HLEN', attempts)
redis.call('HLEN', reason)

local new, living, counted, dying, later, due, notes, reasons, bodies = {}, {}, {}, {}, {}, {}, {}, {}, {}
local function add(list, one, two) list[#list + 1], list[#list + 2] = one, two end
local function put(i, id)
  local at, deliveries, why = tonumber(ARGV[7 * i - 5]), ARGV[7 * i - 3], ARGV[7 * i - 1]
  local is_dead = ARGV[7 * i - 6] == 'dead'
  new[#new + 1] = id
  add(bodies, KEYS[10 + i], ARGV[7 * i])
  if is_dead or deliveries ~= '0' or left_behind then add(notes, id, deliveries) end
  if why ~= '' then add(reasons, id, why) end
  if is_dead then return add(dying, at / 1000000, id) end
  living[#living + 1] = id
  add(counted, id, ARGV[7 * i - 4])
  if at > now then return add(later, at / 1000000, id) end
  due[#due + 1] = id
end

local answer, seen, lives = {}, {}, {}
local function judge(i, id)
  if seen[id] then return '0' end
  if redis.call('EXISTS', KEYS[10 + i]) == 0 then return '1' end
  local alive = counts[i] and (finished[i] == 0 or held[i] or waits[i])
  return (alive or given_up[i]) and '0' or held[i] and 'C' or '1'
end
for i, id in ipairs(ids) do
  answer[i] = judge(i, id)
  if answer[i] == '1' then
    seen[id] = true
    put(i, id)
    local life = tonumber(ARGV[7 * i - 2])
    if life > 0 then add(lives, KEYS[10 + i], life) end
  end
end
if #new == 0 then return table.concat(answer) end

if #living > 0 then redis.call('HSET', count, unpack(counted)) end  -- the first write: out of memory all is refused
if #dying > 0 then
  redis.call('ZADD', dead, unpack(dying))
  for i = 2, #dying, 2 do redis.call('HDEL', count, dying[i]) end
end
redis.call('ZREM', pending, unpack(new))
redis.call('ZREM', unack, unpack(new))
if #living > 0 then redis.call('ZREM', dead, unpack(living)) end
redis.call('HDEL', attempts, unpack(new))
redis.call('HDEL', reason, unpack(new))
if #notes > 0 then redis.call('HSET', attempts, unpack(notes)) end
if #reasons > 0 then redis.call('HSET', reason, unpack(reasons)) end
if #later > 0 then redis.call('ZADD', pending, unpack(later)) end
if #due > 0 then redis.call('LPUSH', ready, unpack(due)) end
redis.call('MSET', unpack(bodies))  -- last, then out of garbage: see send
redis.call('SREM', garbage, unpack(new))
for i = 1, #lives, 2 do redis.call('PEXPIRE', lives[i], math.min(lives[i + 1], 9e15)) end
redis.pcall('HINCRBY', stats, 'sent', #new)
return table.concat(answer)
