--! keys unique keys count unack pending dead garbage
-- The messages that the entries of these unique keys name: for each name nil, or {id, first (us), ends (of the window,
-- us, or 0), alive, in_flight, unack, pending}. Such a message holds its key if it is alive and has a body, which the
-- caller checks. Alive: it has a retry count, this key in `keys`, and is not finished. So all that finishes a message
-- frees its key, and an entry that is left behind holds nothing. If
-- `unique` is of a wrong type, no message holds a key.
local function holders_of(names, now_us)
  local found, ids, places = {}, {}, {}
  local entries = #names > 0 and redis.pcall('HMGET', unique, unpack(names)) or {}
  for n, entry in ipairs(entries) do
    local id, first, ends = parse_entry(entry)
    if id then
      found[n] = {id = id, first = tonumber(first), ends = window_of(first, ends, now_us)}
      ids[#ids + 1] = id
      places[#ids] = n
    end
  end
  if #ids == 0 then return found end
  local counts = redis.call('HMGET', count, unpack(ids))
  local theirs = redis.call('HMGET', keys, unpack(ids))
  local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
  for k, n in ipairs(places) do
    local one = found[n]
    one.unack = redis.call('ZSCORE', unack, one.id)
    one.pending = redis.call('ZSCORE', pending, one.id)
    local placed = one.unack or one.pending or finished[k] == 0 and not redis.call('ZSCORE', dead, one.id)
    one.alive = counts[k] and theirs[k] == names[n] and placed
    one.in_flight = one.unack and not is_backoff(end_of(one.unack))
  end
  return found
end
