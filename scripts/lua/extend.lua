-- extend: prolong backoffs, and leases of Go workers; on request leases of this library.
--
-- KEYS[1] unack     zset  id -> end of lease
-- KEYS[2] retry:cnt hash
-- KEYS[3...]        body of each message; the last 36 characters are its id
-- ARGV[1] ms to add to the end, or to the current time if the end is past
-- ARGV[2] '1': also extend leases of this library's consumers
--
-- The end of such a lease is its receipt, so the consumer loses the lease and its verdict is stale. Go workers have no
-- receipt, and lose nothing. The new end is of the same kind: see nack. A TTL is extended, too, up to the 9e15 ms that
-- Redis can add to its clock.
-- Returns one character per message: 'S' extended, 'H' held, 'G' not in unack, or cancelled.
local unack, count = KEYS[1], KEYS[2]
local more = tonumber(ARGV[1])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local ids = {}
for i = 3, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], -36) end
local scores = redis.call('ZMSCORE', unack, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))

local function later(ends)
  local till = math.max(ends, now) + more * 1000
  if ends % 1000000 == 0 then return math.ceil(till / 1000000) * 1000000 end
  if ends % 1000 ~= 0 then return till % 1000 == 0 and till + 1 or till end
  till = math.ceil(till / 1000) * 1000
  return till % 1000000 == 0 and till + 1000 or till
end

local answer, moved, bodies, seen = {}, {}, {}, {}
for i, id in ipairs(ids) do
  local ends = scores[i] and math.floor(scores[i] * 1000000 + 0.5)
  if not (ends and counts[i]) then
    answer[i] = 'G'
  elseif ends % 1000 ~= 0 and ARGV[2] ~= '1' then
    answer[i] = 'H'
  else
    answer[i] = 'S'
    if not seen[id] then
      moved[#moved + 1], moved[#moved + 2] = later(ends) / 1000000, id
      bodies[#bodies + 1] = KEYS[2 + i]
    end
    seen[id] = true
  end
end
if #moved > 0 then
  redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
  for _, body in ipairs(bodies) do
    local life = redis.call('PTTL', body)
    if life > 0 then redis.call('PEXPIRE', body, math.min(life + more, 9e15)) end
  end
  redis.call('ZADD', unack, 'XX', unpack(moved))
end
return table.concat(answer)
