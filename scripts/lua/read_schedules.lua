-- read_schedules: read schedules that are due, or those with these names. Writes nothing.
--! keys schedules slots paused
--! args limit offset | name
--! use clock schedules
--
-- schedules, slots: see advance
-- limit: most schedules that are due; offset: how many of those to pass over
-- name: if there is one, the schedules with these names are read, due or not
--
-- A schedule is due when its slot has passed: then the next occurrence is to be stored. While the queue is paused none
-- is. Reads no more once the texts have 256 KiB.
-- Returns {time of Redis in us, us until the next one is due, or until the pause ends (-1: not known), 1 if there may
-- be more, 2 if there are active schedules and the queue is paused, for each schedule its name, slot in ms ('': it has
-- none) and text ('': none, or too long)}. A name that is too long for a schedule is cut, and has no text.

local answer = {string.format('%.0f', now), -1, 0}
local bytes = 0
local function read(name, score)
  local text = #name <= 128 and select(3, read_schedule(name)) or ''
  bytes = bytes + #name + #text
  answer[#answer + 1] = string.sub(name, 1, 129)
  answer[#answer + 1] = slot_of(score)
  answer[#answer + 1] = text
end

if #ARGV.name > 0 then
  for i = 1, #ARGV.name do read(ARGV.name[i], redis.call('ZSCORE', slots, ARGV.name[i])) end
  return answer
end
if redis.call('EXISTS', paused) == 1 then
  local left = redis.call('PTTL', paused)
  if left > 0 then answer[2] = string.format('%.0f', left * 1000) end
  answer[3] = 2 * redis.call('EXISTS', slots)
  return answer
end
local later = string.format('(%.6f', now / 1000000)
local head = redis.call('ZRANGEBYSCORE', slots, later, 7258118400, 'WITHSCORES', 'LIMIT', 0, 1)
if head[2] then answer[2] = math.max(0, math.ceil(head[2] * 1000000 - now)) end
local limit = tonumber(ARGV.limit)
local due = redis.call('ZRANGEBYSCORE', slots, '-inf', now / 1000000, 'WITHSCORES', 'LIMIT', ARGV.offset, limit)
for i = 1, #due, 2 do
  if bytes > 262144 then
    answer[3] = 1
    break
  end
  read(due[i], due[i + 1])
end
if #due == 2 * limit then answer[3] = 1 end
return answer
