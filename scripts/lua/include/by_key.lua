--! keys unique keys count
-- For a change of the message that has a key. Returns nil if the entry names this message, and it has the key; else the
-- answer of the script: '?<id>' if the entry names another message, for the caller to call again; or 'unknown'. A dead
-- letter has no key.
local function refused_by_key(id, name)
  local named = parse_entry(redis.pcall('HMGET', unique, name)[1])
  if named and named ~= id then return '?' .. named end  --! check key_of_another_message
  local has_key = named and redis.pcall('HMGET', keys, id)[1] == name and redis.call('HGET', count, id)
  return not has_key and 'unknown' or nil
end
