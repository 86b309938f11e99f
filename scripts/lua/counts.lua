-- counts: lengths, times and statistics of the queue at one moment. Writes nothing.
--
-- KEYS[1] pending   zset
-- KEYS[2] ready     list
-- KEYS[3] unack     zset
-- KEYS[4] retry     list
-- KEYS[5] dead      zset
-- KEYS[6] garbage   set
-- KEYS[7] paused    string
-- KEYS[8] stats     hash
-- ARGV[1...] fields of stats
--
-- Returns {time of Redis in us, lengths of pending, ready, unack, retry, dead and garbage, number of due ids in
-- pending, number of ids in unack whose lease or backoff has ended, first score of pending in us or '', first score of
-- unack in us or '', 1 if paused, values of the fields}. A value is cut to 20 characters; all are '' if stats is of
-- another type.
local pending, ready, unack, retry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, garbage, paused, stats = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function first(zset)
  local head = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  return head[2] and string.format('%.0f', head[2] * 1000000) or ''
end

local totals = {}
local fields = redis.pcall('HMGET', stats, unpack(ARGV))
for i = 1, #ARGV do totals[i] = string.sub(fields[i] or '', 1, 20) end

return {
  string.format('%.0f', now),
  redis.call('ZCARD', pending),
  redis.call('LLEN', ready),
  redis.call('ZCARD', unack),
  redis.call('LLEN', retry),
  redis.call('ZCARD', dead),
  redis.call('SCARD', garbage),
  redis.call('ZCOUNT', pending, '-inf', now / 1000000),
  redis.call('ZCOUNT', unack, '-inf', now / 1000000),
  first(pending),
  first(unack),
  redis.call('EXISTS', paused),
  totals
}
