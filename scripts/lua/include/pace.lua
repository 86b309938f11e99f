--! keys limits running
-- The limits of the queue, as far as they bind this partition. Another program may have written anything: a value that
-- the script `limits` does not write counts as absent.
local function number(text, most)
  local value = text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) or 0
  return value > 0 and value <= most and value or nil
end
local stored =
  redis.pcall('HMGET', limits, 'rate', 'period', 'burst', 'tat', 'running', 'parts', 'part', 'watch', 'full')
if stored.err then stored = {} end
local parts = number(stored[6], 256) or 1
local part = number(stored[7], 255) or 0
-- A partition that was added since the limits were divided: it counts itself among the parts, so that it goes on with a
-- share that is not too large until they are divided again.
if part >= parts then parts = part + 1 end  --! check new_partition_has_no_whole_share
-- Of `all` for the queue those for this partition: the first ones have what is left over.
local function share(all)
  return math.max(1, math.floor(all / parts) + (part < all % parts and 1 or 0))
end

-- The rate is a token bucket. In `interval` us it gets one token; when it is full it has `burst`. `full_at` is when it
-- is full again: at most as far in the future as filling it takes, even if another clock has written `tat`.
local interval, burst, full_at, tokens
local is_ahead = false  -- the stored time was later
if number(stored[1], 2 ^ 53) and number(stored[2], 2 ^ 53) then
  interval = stored[2] * parts / stored[1]
  burst = share(number(stored[3], 2 ^ 53) or 1)
  local noted = tonumber(string.match(stored[4] or '', '^%d+%.?%d*$') or 0)
  is_ahead = noted > now + burst * interval
  full_at = math.min(math.max(noted, now), now + burst * interval)  --! check bucket_is_never_more_than_empty
  tokens = math.max(0, math.floor(burst - (full_at - now) / interval))
end
-- us until there is a token more than `used`.
local function next_token(used)
  return math.max(0, math.ceil(full_at + used * interval - (burst - 1) * interval - now) + 1)
end

-- How many messages may be in flight, and how many entries `running` has.
local most_running = number(stored[5], 2 ^ 53)
local in_flight = most_running and redis.pcall('ZCARD', running)
if type(in_flight) == 'number' then most_running = share(most_running) else most_running = nil end
