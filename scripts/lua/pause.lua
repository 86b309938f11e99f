-- pause: read, set or copy whether one partition of a queue is paused. Partition 0 has the pause of the queue, the
-- others have copies of it.
--
-- KEYS[1] settings   hash    pause: the generation of the last setting: of a pause, or of its end
-- KEYS[2] paused     string  exists while the partition is paused: the reason; with a TTL if the pause has an end
-- ARGV[1] 'read'; 'set': in a new generation; 'copy': unless the partition has this generation or a later one
-- ARGV[2] generation: to copy; 'set': one that the caller has seen
-- ARGV[3] '1': paused. '0': not
-- ARGV[4] reason
-- ARGV[5] ms until the pause ends; 0: it does not end
--
-- A generation that no pause can have counts as absent. A new one is later than that of the partition and the caller's,
-- at least the time in us, and odd for a pause, even for its end. So a pause that a program sets or ends without a
-- generation does not count as that of the queue. When Redis is out of memory it refuses a new pause, and accepts its end and each copy.
-- Returns {generation now, or -1: it has none; 1 if the partition is paused now, else 0; reason, or nil: `paused` is no
-- string; ms until the pause ends, negative: it does not end}.
local settings, paused = KEYS[1], KEYS[2]

local text = redis.call('HGET', settings, 'pause')
local generation = text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) or -1
local reason = redis.pcall('GETRANGE', paused, 0, -1)
if type(reason) == 'table' then
  if not string.find(reason.err, 'WRONGTYPE', 1, true) then return reason end
  reason = false
end

local wanted = nil
if ARGV[1] == 'set' then
  local time = redis.call('TIME')
  wanted = math.max(time[1] * 1000000 + time[2], generation + 1, ARGV[2] + 1)
  if wanted % 2 ~= tonumber(ARGV[3]) then wanted = wanted + 1 end
elseif ARGV[1] == 'copy' and tonumber(ARGV[2]) > generation then
  wanted = tonumber(ARGV[2])
end

if wanted then
  -- So that Redis accepts the rest of a copy when out of memory: see nack.
  if ARGV[1] == 'copy' then redis.call('HDEL', settings, '') end
  if ARGV[3] ~= '1' then
    redis.call('UNLINK', paused)
  elseif ARGV[5] == '0' then
    redis.call('SET', paused, ARGV[4])
  else
    redis.call('SET', paused, ARGV[4], 'PX', ARGV[5])
  end
  redis.call('HSET', settings, 'pause', string.format('%.0f', wanted))
  generation = wanted
  reason = ARGV[3] == '1' and ARGV[4] or ''
end

local left = redis.call('PTTL', paused)
return {generation, left ~= -2 and 1 or 0, reason, left}
