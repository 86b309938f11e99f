-- delete_orphaned_keys: delete entries of unique keys that no message holds any more, and whose window is over.
--! keys unique keys count
--! args | name
--! use clock entry
--
-- name: a unique key
--
-- An entry goes if the message that it names has no retry count, or another key. One of another form holds nothing and
-- stays, unless it is longer than any: check reports it. A value of more than 16 KiB goes unread, as in
-- delete_orphaned_metadata.
-- Returns the number of entries deleted.

local names = {unpack(ARGV.name)}
if type(redis.pcall('HLEN', unique)) ~= 'number' or type(redis.pcall('HLEN', keys)) ~= 'number' then return 0 end

local gone = {}
for _, name in ipairs(names) do
  if redis.call('HSTRLEN', unique, name) > 16384 then
    gone[#gone + 1] = name
  else
    local id, first, ends = parse_entry(redis.call('HGET', unique, name))
    local is_held = id and redis.call('HGET', count, id) and redis.call('HGET', keys, id) == name
    if id and not is_held and window_of(first, ends, now) <= now then gone[#gone + 1] = name end
  end
end
if #gone > 0 then redis.call('HDEL', unique, unpack(gone)) end  --! check orphaned_entry_is_deleted
return #gone
