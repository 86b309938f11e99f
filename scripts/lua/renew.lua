-- renew: move the lease ends of messages that are held.
--
-- KEYS[1] unack    zset  id -> end of lease
-- ARGV[1] the new end in us; never whole milliseconds, which would look like a backoff (see nack): refused
-- ARGV[2...] two a message: id, its receipt
--
-- A lease that has the new end already was renewed by this very call, whose answer got lost.
-- Returns {Redis' time in us, one character a message}. The new end in the future: 'N' has the new end now, 'T' stale,
-- 'G' not in unack. Else nothing is changed, and 'N' or 'O' says whether a message has the new or the old end.
local unack = KEYS[1]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local till = tonumber(ARGV[1])
if till % 1000 == 0 then return redis.error_reply('ERR renew: the new end is in whole milliseconds') end

local ids = {}
for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', unack, unpack(ids))

local answer, renewed = {}, {}
for i, id in ipairs(ids) do
  local ends = scores[i] and math.floor(scores[i] * 1000000 + 0.5)
  if not ends then
    answer[i] = 'G'
  elseif ends == till then
    answer[i] = 'N'
  elseif ends ~= tonumber(ARGV[2 * i + 1]) then
    answer[i] = 'T'
  elseif till > now then
    answer[i] = 'N'
    renewed[#renewed + 1] = till / 1000000
    renewed[#renewed + 1] = id
  else
    answer[i] = 'O'
  end
end
if #renewed > 0 then
  redis.call('ZREM', unack, '')  -- lets the rest pass when Redis is out of memory
  redis.call('ZADD', unack, 'XX', unpack(renewed))
end
return {string.format('%.0f', now), table.concat(answer)}
