-- The ids, which may be any text: the end of the key of each body.
local ids = {}
for i = 1, #KEYS.body do ids[i] = string.sub(KEYS.body[i], ARGV.before_id + 1) end
