-- check: classify what is stored of some ids; or classify earlier findings again, and repair them. Deletes no body.
--
-- KEYS[1] pending   zset
-- KEYS[2] unack     zset
-- KEYS[3] dead      zset
-- KEYS[4] retry:cnt hash
-- KEYS[5] attempts  hash
-- KEYS[6] reason    hash
-- KEYS[7] garbage   set
-- KEYS[8] ready     list
-- KEYS[9] retry     list
-- KEYS[10...]       body of each id
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
local ids, bodies = {}, {}
for i = 10, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], ARGV[1] + 1) end
local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
local in_unack = redis.call('ZMSCORE', unack, unpack(ids))
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
local list_length = math.max(redis.call('LLEN', ready), redis.call('LLEN', retry))

local hex = '[%da-f]'
local uuid = '^' .. hex:rep(8) .. ('%-' .. hex:rep(4)):rep(3) .. '%-' .. hex:rep(12) .. '$'
local latest = 7258118399.999  -- end of 2199, as in lib/store/record.h
local function is_no_time(score)
  return score and not (tonumber(score) >= 0 and tonumber(score) <= latest)
end

-- The verdict: the first line of the table that fits.
local function classify(i)
  local p, u, d, c, b = in_pending[i], in_unack[i], in_dead[i], counts[i], bodies[i]
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
  local has_metadata = redis.call('HEXISTS', attempts, ids[i]) == 1 or redis.call('HEXISTS', reason, ids[i]) == 1
  return has_metadata and 'A' or '.'
end

-- Whether the id is near an end of a list.
local reach = math.floor(10000 / #ids)
local function find_from(list, rank, id)
  return redis.call('LPOS', list, id, 'RANK', rank, 'MAXLEN', reach)
end
local function is_in_list(id)
  return list_length > 0
    and (find_from(ready, 1, id) or find_from(ready, -1, id) or find_from(retry, 1, id) or find_from(retry, -1, id))
end

local function repair(i, verdict)
  local id, p, u, d, c, b = ids[i], in_pending[i], in_unack[i], in_dead[i], counts[i], bodies[i]
  local only_unack = verdict == 'L' and not (p or d)
  local finish = verdict == 'B' or verdict == 'C' or verdict == 'E' or only_unack and not b
  local remove = finish or verdict == 'S'
  -- In two places: the dead letter stays if it has no count, else the later one of pending and unack.
  local only_dead = verdict == 'T' and d and not c
  local pending_stays = verdict == 'T' and p and u and tonumber(p) > tonumber(u)
  local unack_stays = verdict == 'T' and p and u and not pending_stays

  if verdict == 'I' and is_no_time(p) then
    redis.call('ZADD', pending, 'XX', math.max(0, math.min(p, latest)), id)
  end
  if verdict == 'I' and is_no_time(d) then redis.call('ZADD', dead, 'XX', now, id) end
  if verdict == 'N' or verdict == 'O' or only_unack and b and not c then redis.call('HSET', count, id, ARGV[3]) end
  if verdict == 'M' or verdict == 'O' or only_unack and b then redis.call('LPUSH', ready, id) end
  if finish then redis.call('SADD', garbage, id) end
  if remove or verdict == 'K' then redis.call('HDEL', count, id) end
  if remove or verdict == 'A' then
    redis.call('HDEL', attempts, id)
    redis.call('HDEL', reason, id)
  end
  if remove or only_dead or unack_stays then redis.call('ZREM', pending, id) end
  if remove or only_dead or pending_stays or verdict == 'L' then redis.call('ZREM', unack, id) end
  if remove or verdict == 'T' and not only_dead then redis.call('ZREM', dead, id) end
end

local verdicts = {}
for i, id in ipairs(ids) do
  local kind = redis.call('TYPE', KEYS[9 + i]).ok
  bodies[i] = kind == 'string'
  local verdict = (bodies[i] or kind == 'none') and classify(i) or 'W'
  local earlier = ARGV[3 + i]
  if ARGV[2] ~= 'classify' then
    local same = verdict == earlier and not ((verdict == 'M' or verdict == 'C') and is_in_list(id))
    verdict = (same or earlier == 'E' and verdict == 'C') and earlier or '.'
  end
  verdicts[i] = verdict
end

if ARGV[2] == 'repair' then redis.call('ZREM', unack, '') end  -- for a Redis out of memory: see nack
local answer = {}
for i, verdict in ipairs(verdicts) do
  answer[i] = verdict
  if verdict ~= '.' then
    local parts = (in_pending[i] and 'p' or '') .. (in_unack[i] and 'u' or '') .. (in_dead[i] and 'd' or '') ..
      (counts[i] and 'c' or '') .. (bodies[i] and 'b' or '')
    if verdict == 'A' and redis.call('HEXISTS', attempts, ids[i]) == 1 then parts = 'a' end
    answer[i] = verdict .. parts
    if ARGV[2] == 'repair' then repair(i, verdict) end
  end
end
return table.concat(answer, ' ')
