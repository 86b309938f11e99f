-- check: classify what is stored of some ids; or classify earlier findings again, and repair them. Deletes no body.
--
-- KEYS[1] pending  zset   KEYS[2] unack zset   KEYS[3] dead zset   KEYS[4] retry:cnt hash   KEYS[5] attempts hash
-- KEYS[6] reason   hash   KEYS[7] garbage set  KEYS[8] ready list  KEYS[9] retry list
-- KEYS[10...] body of each id
-- ARGV[1] length of a body's key without the id; the id may be any text
-- ARGV[2] 'classify', 'confirm' or 'repair'; only 'repair' writes
-- ARGV[3] retries for messages without a count
-- ARGV[4...] for 'confirm' and 'repair': the earlier verdict on each id
--
-- lib/store/integrity.h has the table of verdicts and repairs.
-- A message with a body and a count in no zset is healthy if it is in a list. The caller has searched the lists; here
-- confirm and repair search 10,000 / ids entries at both ends of each list, where ids are added and removed.
-- Returns one word for each id, joined by ' ': '.', or its verdict and which of p (pending), u (unack), d (dead),
-- c (count), b (body) it has; after the verdict A only 'a', if it has attempts.
local pending, unack, dead, count, attempts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local reason, garbage, ready, retry = KEYS[6], KEYS[7], KEYS[8], KEYS[9]

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local ids, verdicts, bodies = {}, {}, {}
for i = 10, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], ARGV[1] + 1) end
local waits, held = redis.call('ZMSCORE', pending, unpack(ids)), redis.call('ZMSCORE', unack, unpack(ids))
local given_up, counts = redis.call('ZMSCORE', dead, unpack(ids)), redis.call('HMGET', count, unpack(ids))
local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
redis.call('HLEN', attempts) redis.call('HLEN', reason)
local longest = math.max(redis.call('LLEN', ready), redis.call('LLEN', retry))
local hex = '[%da-f]'
local uuid = '^' .. hex:rep(8) .. ('%-' .. hex:rep(4)):rep(3) .. '%-' .. hex:rep(12) .. '$'
local latest = 7258118399.999  -- end of 2199, as in lib/store/record.h
local function is_no_time(score) return score and not (tonumber(score) >= 0 and tonumber(score) <= latest) end

local function judge(i)
  local p, u, d, c, b = waits[i], held[i], given_up[i], counts[i], bodies[i]
  if finished[i] == 1 then return 'G' end
  if not string.find(ids[i], uuid) and (p or u or d or c or b) then return b and 'V' or 'S' end
  if is_no_time(p) or is_no_time(d) then return 'I' end
  local left = u and u - now or 0
  if left > 36525 * 86400 or left > 86400 and not (b or c) then return 'L' end
  local by_go = u and math.floor(u * 1000000 + 0.5) % 1000000 == 0 and left < 3600
  if p and d or u and (p or d) and not by_go then return 'T' end
  if u then return '.' end
  if p and b then return c and '.' or 'N' end
  if p then return c and tonumber(p) > now and 'B' or 'E' end
  if d then return c and 'K' or b and '.' or 'E' end
  if b or c then return b and c and 'M' or b and 'O' or 'C' end
  local noted = redis.call('HEXISTS', attempts, ids[i]) == 1 or redis.call('HEXISTS', reason, ids[i]) == 1
  return noted and 'A' or '.'
end

local function listed(id)
  local reach = math.floor(10000 / #ids)
  local function at(list, rank) return redis.call('LPOS', list, id, 'RANK', rank, 'MAXLEN', reach) end
  return longest > 0 and (at(ready, 1) or at(ready, -1) or at(retry, 1) or at(retry, -1))
end

local function mend(i, found)
  local id, p, u, d, c, b = ids[i], waits[i], held[i], given_up[i], counts[i], bodies[i]
  if found == 'I' and is_no_time(p) then redis.call('ZADD', pending, 'XX', math.max(0, math.min(p, latest)), id) end
  if found == 'I' and is_no_time(d) then redis.call('ZADD', dead, 'XX', now, id) end
  local alone = found == 'L' and not (p or d)
  local ends = found == 'B' or found == 'C' or found == 'E' or alone and not b
  local only_dead = found == 'T' and d and not c
  local later = found == 'T' and p and u and tonumber(p) > tonumber(u)
  local earlier = found == 'T' and p and u and not later
  local all = ends or found == 'S'
  if found == 'N' or found == 'O' or alone and b and not c then redis.call('HSET', count, id, ARGV[3]) end
  if found == 'M' or found == 'O' or alone and b then redis.call('LPUSH', ready, id) end
  if ends then redis.call('SADD', garbage, id) end
  if all or found == 'K' then redis.call('HDEL', count, id) end
  if all or found == 'A' then redis.call('HDEL', attempts, id) redis.call('HDEL', reason, id) end
  if all or only_dead or earlier then redis.call('ZREM', pending, id) end
  if all or only_dead or later or found == 'L' then redis.call('ZREM', unack, id) end
  if all or found == 'T' and not only_dead then redis.call('ZREM', dead, id) end
end

for i, id in ipairs(ids) do
  local kind = redis.call('TYPE', KEYS[9 + i]).ok
  bodies[i] = kind == 'string'
  local found, before = (bodies[i] or kind == 'none') and judge(i) or 'W', ARGV[3 + i]
  if ARGV[2] ~= 'classify' then
    local same = found == before and not ((found == 'M' or found == 'C') and listed(id))
    found = (same or before == 'E' and found == 'C') and before or '.'
  end
  verdicts[i] = found
end

if ARGV[2] == 'repair' then redis.call('ZREM', unack, '') end  -- for a Redis out of memory: see nack
local answer = {}
for i, found in ipairs(verdicts) do
  answer[i] = found
  if found ~= '.' then
    local parts = (waits[i] and 'p' or '') .. (held[i] and 'u' or '') .. (given_up[i] and 'd' or '') ..
      (counts[i] and 'c' or '') .. (bodies[i] and 'b' or '')
    if found == 'A' and redis.call('HEXISTS', attempts, ids[i]) == 1 then parts = 'a' end
    answer[i] = found .. parts
    if ARGV[2] == 'repair' then mend(i, found) end
  end
end
return table.concat(answer, ' ')
