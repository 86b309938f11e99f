-- layout: change the copy of the queue's layout that one partition keeps: update it, or set another number of partitions.
--
-- KEYS[1] settings   hash  generation, partitions and top: the generation of the number of partitions, this number, and
--                          the most partitions that the queue ever had
-- ARGV[1] generation  of the layout that the caller has; 0: the number was never set
-- ARGV[2] partitions
-- ARGV[3] top
-- ARGV[4] '1': set this number of partitions, in a new generation. '0': update the copy, where it is behind
--
-- The number of the higher generation counts; of two numbers of one generation, the larger one. top only grows. Fields
-- that no layout can have count as absent. A new generation is later than the caller's and at least the time in us. It is
-- refused if the copy has a generation that the caller has not read.
-- Returns {1 or 0: it was refused, and nothing was written; generation, partitions and top of the copy now}.
local settings = KEYS[1]

local function number(text)
  return text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) or 0
end

local possible = {}
for i = 0, 8 do possible[2 ^ i] = true end

local copy = redis.call('HMGET', settings, 'generation', 'partitions', 'top')
local generation, partitions, top = number(copy[1]), number(copy[2]), number(copy[3])
if generation == 0 or not possible[partitions] then generation, partitions = 0, 1 end
top = top > 256 and partitions or math.max(top, partitions)

local wanted = tonumber(ARGV[1])
if ARGV[4] == '1' then
  if generation > wanted then return {0, generation, partitions, top} end
  local time = redis.call('TIME')
  wanted = math.max(time[1] * 1000000 + time[2], wanted + 1)
end

local most = math.max(top, tonumber(ARGV[3]), tonumber(ARGV[2]))
local later = wanted > generation or wanted == generation and tonumber(ARGV[2]) > partitions
if later then generation, partitions = wanted, tonumber(ARGV[2]) end
if later or most > top then
  redis.call('HDEL', settings, '')  -- so that Redis accepts the rest when out of memory: see nack
  redis.call('HSET', settings, 'generation', string.format('%.0f', generation), 'partitions', partitions, 'top', most)
end
return {1, generation, partitions, most}
