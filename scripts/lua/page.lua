-- page: one page of the messages of a state, with their metadata. Writes nothing.
--
-- KEYS[1] the state: pending, unack or dead (zset), ready or retry (list)
-- KEYS[2] pending   zset
-- KEYS[3] unack     zset
-- KEYS[4] dead      zset
-- KEYS[5] retry:cnt hash
-- KEYS[6] attempts  hash
-- KEYS[7] reason    hash
-- ARGV[1] 'zset' or 'list'
-- ARGV[2] ids to skip
-- ARGV[3] most ids to read
--
-- Ids in a list count as in ready2unack; others are left out.
-- Returns {ids read, {id, score in us or '', retries or '', attempts or '', reason or ''}, ...}, in the order of
-- delivery; the last three are cut to 64, 64 and 1,024 characters.
local state, pending, unack, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, attempts, reason = KEYS[5], KEYS[6], KEYS[7]
local from, most = tonumber(ARGV[2]), tonumber(ARGV[3])

local ids, times, no_message = {}, {}, {}
if most == 0 then return {0} end
if ARGV[1] == 'zset' then
  local found = redis.call('ZRANGE', state, from, from + most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    ids[#ids + 1] = found[i]
    times[#times + 1] = string.format('%.0f', found[i + 1] * 1000000)
  end
else
  local found = redis.call('LRANGE', state, -from - most, -from - 1)
  for i = #found, 1, -1 do ids[#ids + 1] = found[i] end
end
if #ids == 0 then return {0} end
local counts = redis.call('HMGET', count, unpack(ids))
local before = redis.call('HMGET', attempts, unpack(ids))
local reasons = redis.call('HMGET', reason, unpack(ids))
if ARGV[1] == 'list' then
  local in_pending = redis.call('ZMSCORE', pending, unpack(ids))
  local in_unack = redis.call('ZMSCORE', unack, unpack(ids))
  local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
  for i = 1, #ids do no_message[i] = in_pending[i] or in_unack[i] or in_dead[i] or not counts[i] end
end

local answer = {#ids}
for i, id in ipairs(ids) do
  if not no_message[i] then
    answer[#answer + 1] = {
      id,
      times[i] or '',
      string.sub(counts[i] or '', 1, 64),
      string.sub(before[i] or '', 1, 64),
      string.sub(reasons[i] or '', 1, 1024)
    }
  end
end
return answer
