--! keys unique keys
-- Frees the keys of messages that are settled or cancelled, if the entries name them. An entry with a window stays
-- unless `ends_windows`: maintenance deletes it. An entry without a message holds nothing, so errors are ignored.
local function free_keys(ids, ends_windows)
  if #ids == 0 or redis.call('EXISTS', keys) == 0 then return end
  local all = redis.pcall('HMGET', keys, unpack(ids))
  local names, owners = {}, {}
  for i = 1, #all do
    if all[i] then
      names[#names + 1] = all[i]
      owners[#names] = ids[i]
    end
  end
  if #names == 0 then return end
  local entries = redis.pcall('HMGET', unique, unpack(names))
  local freed = {}
  for n = 1, #entries do
    local id, _, ends = parse_entry(entries[n])
    if id == owners[n] and (ends == '0' or ends_windows) then freed[#freed + 1] = names[n] end
  end
  if #freed > 0 then redis.pcall('HDEL', unique, unpack(freed)) end  --! check key_is_free
  redis.pcall('HDEL', keys, unpack(owners))  --! check message_has_no_key
end
