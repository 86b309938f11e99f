-- The time of Redis and the due time of the messages in ms, and whether they are due later than now.
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local due = ARGV.delay ~= '' and math.ceil(now + ARGV.delay) or tonumber(ARGV.due)
local later = ARGV.delay ~= '' and tonumber(ARGV.delay) > 0 or ARGV.delay == '' and due > now
