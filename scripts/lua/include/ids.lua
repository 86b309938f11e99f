-- The id of each message: the end of its body's key.
local ids = {}
for i = 1, #KEYS.body do ids[i] = string.sub(KEYS.body[i], -36) end
