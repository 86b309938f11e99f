-- persist: keep the bodies of dead letters, whatever TTL they were sent with. Follows unack2retry, which cannot know
-- their keys.
--
-- KEYS[1] dead     zset
-- KEYS[2...]       body of each message; the last 36 characters are its id
--
-- Returns the number of bodies that had a TTL.
local dead = KEYS[1]

local ids = {}
for i = 2, #KEYS do ids[#ids + 1] = string.sub(KEYS[i], -36) end
local scores = redis.call('ZMSCORE', dead, unpack(ids))

local kept = 0
for i = 1, #ids do
  if scores[i] then kept = kept + redis.call('PERSIST', KEYS[i + 1]) end
end
return kept
