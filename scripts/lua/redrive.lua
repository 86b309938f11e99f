-- redrive: make dead letters ready again.
--! keys dead ready count attempts reason garbage stats retry unack pending unique keys | body | other
--! args retries messages
--! use clock ends drop_probe entry holders take_keys
--
-- other: bodies of messages that may have the unique keys of these, as an earlier answer has named them
-- retries: of each
-- messages: their number
--
-- Deliveries and reason are deleted, and a late ack of the last lease is stale. A probe that is one of them is deleted:
-- see reschedule.
-- A message with a unique key holds it again, unless another message does: see send_keyed. Of several with one key the
-- first one does. A window of the key stays.
-- Returns one character per message: 'S' ready again, 'B' its body is gone, so it goes to garbage, 'G' not dead, 'K'
-- another message has its key, '?' call again with the body of the one that may have it; then, each behind a space, the
-- ids of those for '?'.

local messages = tonumber(ARGV.messages)
local ids, body_of = {}, {}
for i = 1, messages do
  ids[i] = string.sub(KEYS.body[i], -36)
  body_of[ids[i]] = KEYS.body[i]
end
for i = 1, #KEYS.rest - messages do body_of[string.sub(KEYS.other[i], -36)] = KEYS.other[i] end
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
redis.call('LLEN', ready)
local has_retry_entries = redis.call('LLEN', retry) > 0  -- see send
redis.call('HLEN', count)
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('SCARD', garbage)

-- The keys. If `keys` is of a wrong type, no message has one.
local answer, names, positions = {}, {}, {}
local noted = redis.pcall('HMGET', keys, unpack(ids))
for i = 1, messages do
  answer[i] = not in_dead[i] and 'G' or redis.call('EXISTS', KEYS.body[i]) == 0 and 'B' or 'S'
  if answer[i] == 'S' and noted[i] then
    names[#names + 1] = noted[i]
    positions[#names] = i
  end
end
local owners = {}
for n, i in ipairs(positions) do owners[n] = ids[i] end
local outcomes, entries, asked = take_keys(names, owners, body_of)
for n, i in ipairs(positions) do answer[i] = outcomes[n] end

local back, counts, gone = {}, {}, {}
for i, id in ipairs(ids) do
  if answer[i] == 'B' then gone[#gone + 1] = id end
  if answer[i] == 'S' then
    back[#back + 1] = id
    counts[#counts + 1] = id
    counts[#counts + 1] = ARGV.retries
  end
end
if #back > 0 then
  redis.call('HSET', count, unpack(counts))  -- the first write: out of memory Redis refuses the whole script
  if #entries > 0 then redis.pcall('HSET', unique, unpack(entries)) end  --! check redriven_message_has_its_key
  redis.call('SREM', garbage, unpack(back))  --! check redriven_message_is_not_garbage
  redis.call('HDEL', attempts, unpack(back))  --! check redriven_message_has_no_deliveries
  --! check old_entry_is_no_delivery
  for i = 1, has_retry_entries and #back or 0 do redis.call('HSET', attempts, back[i], '0') end
  redis.call('HDEL', reason, unpack(back))  --! check redriven_message_has_no_reason
  redis.call('LPUSH', ready, unpack(back))
  redis.call('ZREM', dead, unpack(back))  --! check redriven_message_leaves_dead
  drop_probe(back)  --! check probe_that_is_redriven_is_deleted
  redis.pcall('HINCRBY', stats, 'redriven', #back)
end
if #gone > 0 then
  redis.call('SADD', garbage, unpack(gone))  --! check message_without_body_goes_to_garbage
  redis.call('ZREM', dead, unpack(gone))  --! check message_without_body_leaves_dead
end
return table.concat(answer) .. asked
