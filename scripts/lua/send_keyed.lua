-- send_keyed: send for messages with unique keys, and for a queue that limits its length.
--! keys pending ready count garbage unack dead attempts reason stats wake retry headers unique keys | body | other
--! args new_ids delay due retries ttl most conflict in_flight window max_wait search_lists staged | payload key header
--! use due ends metadata probe drop_probe take_staged store_bodies existing earlier move_due entry holders marker
--
-- unique: key -> '<id> <first> <until>': the last message that was created with this key, when (us), and the end of its
--   window (us), or 0. It holds the key as long as it is alive: see holders
-- keys: id -> the key of the message
-- other: if `staged`, the staged payload of each message, in the same order; then the bodies of messages that may hold
--   one of the keys, as an earlier answer has named them
-- new_ids, delay, due, retries, ttl: see send
-- most: how many messages the queue may have, without dead letters; or ''
-- conflict: while another message holds the key: 'keep': nothing is stored; 'replace': that message gets the payload
--   and the headers of this one; 'postpone': also its due time
-- in_flight: for 'keep': '1': a message holds its key also while a consumer has it. For the others it never does
-- window: for 'keep', in ms: the key is held for so long after the send, also when the message is gone
-- max_wait: for 'postpone', in ms: the due time is at most so long after the message was created; or ''
-- search_lists: see reschedule
-- staged: '1': the payloads are staged, and the arguments `payload` are empty
-- key: '': the message has none. No key may be twice in a call
-- header: packed headers, '' for none
--
-- If the id exists, the key decides nothing. A script may touch only keys of Redis that the call names: so if the body
-- of a message that may hold the key is not among `other`, nothing is stored, and the answer names that message; the
-- caller calls again.
-- A message that is replaced keeps its id, place, deliveries, retries, and its TTL, which moves with the due time. A
-- late ack of its last lease is stale.
-- What makes a message exist is written last, as in send: so the entry of `unique` is there before. The window is
-- written after it: an entry that a refused call leaves holds nothing. If a message is not stored, and its id may
-- exist, what a refused call has left of it is deleted.
-- The length counts messages with a retry count. If the messages to create are too many, the call stores nothing.
-- Returns one character per message: '1' created, '0' existed, 'C' was cancelled and a consumer still holds it, 'U'
-- another message has the key and is kept, 'R' it is replaced, '?' call again with its body, 'F' the queue is full;
-- then 'N' if those created are the first that stats counts; then, each behind a space, the ids of the other messages
-- for 'U', 'R' and '?'.

local messages = #ARGV.payload
local new_ids, staged, conflict = ARGV.new_ids == '1', ARGV.staged == '1', ARGV.conflict
local ttl, window, max_wait = tonumber(ARGV.ttl), tonumber(ARGV.window), tonumber(ARGV.max_wait)

-- A key of a wrong type fails here, before the first write.
redis.call('ZCARD', pending)
redis.call('LLEN', ready)
redis.call('ZCARD', unack)
redis.call('ZCARD', dead)
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('HLEN', headers)
redis.call('HLEN', unique)
redis.call('HLEN', keys)
local has_retry_entries = redis.call('LLEN', retry) > 0  -- see send

local ids, body_of, is_named = {}, {}, {}
for i = 1, messages do
  ids[i] = string.sub(KEYS.body[i], -36)
  body_of[ids[i]] = KEYS.body[i]
  local name = ARGV.key[i]
  if name ~= '' and is_named[name] then
    return redis.error_reply('ERR send_keyed: two messages of a call have one key; nothing was stored')
  end
  is_named[name] = true
end
for i = staged and messages + 1 or 1, #KEYS.rest - messages do
  body_of[string.sub(KEYS.other[i], -36)] = KEYS.other[i]
end

-- Decide about each message: first by its id, then by its key.
local answer, counted, may_be_left = {}, {}, {}
if new_ids then
  for i = 1, messages do answer[i] = '1' end
else
  answer, may_be_left, counted = find_existing(ids)
end
local names, positions = {}, {}
for i = 1, messages do
  if ARGV.key[i] ~= '' and (answer[i] == '1' or answer[i] == '0' and window > 0) then
    names[#names + 1] = ARGV.key[i]
    positions[#names] = i
  end
end
local others, windows = {}, {}  -- by position: the message that the entry names; the end of a window that is not over
local replaced, unfinished, asked = {}, {}, 0
local function decide(i, other)
  local is_own = other.id == ids[i]
  if other.ends > now * 1000 then windows[i] = other.ends end
  if answer[i] == '0' then  -- of a call that was refused before it wrote the window
    if is_own and other.ends == 0 then unfinished[#unfinished + 1] = i end
    return
  end
  local holds = other.alive and not is_own
  if other.in_flight and (conflict ~= 'keep' or ARGV.in_flight ~= '1') then holds = false end
  local body = body_of[other.id]
  if holds and not body then
    answer[i] = '?'
    asked = asked + 1
    return
  end
  if holds then holds = redis.call('EXISTS', body) == 1 end  --! check key_without_body_is_free
  if conflict == 'keep' and (holds or windows[i]) then
    answer[i] = 'U'
  elseif holds then
    answer[i] = 'R'
    replaced[#replaced + 1] = i
  end
end
for n, other in pairs(holders_of(names, now * 1000)) do
  others[positions[n]] = other
  decide(positions[n], other)
end

-- The length. Counts that are left of the ids of this call are those of no other message. While it is not known whether
-- all messages are to be created, and there may be no room for all, none is: the call would be stored in part.
local new = {}  -- positions
for i = 1, messages do
  if answer[i] == '1' then new[#new + 1] = i end
end
if ARGV.most ~= '' and #new > 0 then
  local room = ARGV.most - redis.call('HLEN', count) + #counted
  if #new > room then
    for i = 1, messages do
      if answer[i] == '1' or answer[i] == 'R' or answer[i] == '?' then answer[i] = 'F' end
    end
    new, replaced, unfinished = {}, {}, {}
  elseif #new + asked > room then
    for _, i in ipairs(new) do
      answer[i] = '?'
      others[i] = {id = ids[i]}
    end
    for _, i in ipairs(replaced) do answer[i] = '?' end
    new, replaced, unfinished = {}, {}, {}
  end
end

-- What is stored of each message.
local created, counts, noted_keys, entries, ends_of_windows, packed, bodies = {}, {}, {}, {}, {}, {}, {}
local function add(list, one, two)
  list[#list + 1] = one
  list[#list + 1] = two
end
local function payload_of(i) return staged and KEYS.other[i] or ARGV.payload[i] end
local function entry(id, first, ends) return string.format('%s %.0f %.0f', id, first, ends) end
for _, i in ipairs(new) do
  local id, name = ids[i], ARGV.key[i]
  created[#created + 1] = id
  add(counts, id, ARGV.retries)
  if name ~= '' then
    add(noted_keys, id, name)
    add(entries, name, entry(id, now * 1000, windows[i] or 0))
    if window > 0 then add(ends_of_windows, name, entry(id, now * 1000, (now + window) * 1000)) end
  end
  if ARGV.header[i] ~= '' then add(packed, id, ARGV.header[i]) end
  add(bodies, KEYS.body[i], payload_of(i))
end
for _, i in ipairs(unfinished) do
  local first = others[i].first
  add(ends_of_windows, ARGV.key[i], entry(ids[i], first, first + window * 1000))
end
for i = 1, staged and messages or 0 do
  if (answer[i] == '1' or answer[i] == 'R') and redis.call('EXISTS', KEYS.other[i]) == 0 then
    return redis.error_reply('ERR send_keyed: a payload that was stored ahead of the script (key ' .. KEYS.other[i] ..
      ') is gone: it expired, or was deleted or evicted; nothing was stored; send again')
  end
end

-- Redis refuses the whole script when it is out of memory.
if #new + #replaced + #ends_of_windows > 0 then
  redis.call('ZADD', pending, 'XX', 'GT', '-inf', '')  -- changes nothing  --! check refused_whole_without_memory
end
local is_probe, first = false, false
if #new > 0 then
  if #counted > 0 then redis.call('HDEL', count, unpack(counted)) end  --! check refused_call_counts_nothing
  if new_ids then redis.call('HSET', count, unpack(counts)) end  --! check new_id_has_retries
  if later then
    local score = string.format('%.3f', due / 1000)
    local scores = {}
    for i = #created, 1, -1 do add(scores, score, created[i]) end  -- in descending order: see ready2unack
    redis.call('ZADD', pending, unpack(scores))
  else
    is_probe = redis.call('LPUSH', ready, unpack(created)) == #created
  end
  --! check new_message_leaves_nothing_earlier
  if not new_ids then remove_earlier(created, has_retry_entries, later) end
  if #noted_keys > 0 then redis.call('HSET', keys, unpack(noted_keys)) end  --! check message_has_its_key
  if #packed > 0 then redis.call('HSET', headers, unpack(packed)) end  --! check headers_are_stored
  if #entries > 0 then redis.call('HSET', unique, unpack(entries)) end  --! check new_message_holds_its_key
  local refused = store_bodies(bodies, staged, ttl > 0 and math.max(1, math.ceil(due - now) + ttl))
  if refused then return refused end
  if not new_ids then
    redis.call('SREM', garbage, unpack(created))  --! check new_message_leaves_garbage
    redis.call('HSET', count, unpack(counts))  --! check message_has_retries
  end
end

-- The end of a lease becomes one of a backoff, of the same millisecond: so no receipt equals it.
local function forget_last_lease(id, last)
  local deliveries, ends = string.match(last, '^(%d+) (%d+)$')
  if not ends or #ends > 16 or is_backoff(tonumber(ends)) then return end
  ends = math.floor(ends / 1000) * 1000
  if ends % 1000000 == 0 then ends = ends + 1000 end
  redis.call('HSET', attempts, id, string.format('%s %.0f', deliveries, ends))
end

-- Returns the error if a staged payload cannot become the body.
local function replace(i, other)
  local id, body = other.id, body_of[other.id]
  local last = redis.call('HGET', attempts, id)
  if last then forget_last_lease(id, last) end  --! check late_ack_settles_no_new_payload
  if staged then
    local life = redis.call('PTTL', body)
    local refused = take_staged(KEYS.other[i], body, life > 0 and math.min(life, 9e15))
    if refused then return refused end
  else
    redis.call('SET', body, ARGV.payload[i], 'KEEPTTL')
  end
  if ARGV.header[i] ~= '' then
    redis.call('HSET', headers, id, ARGV.header[i])  --! check replaced_message_has_new_headers
  else
    redis.call('HDEL', headers, id)  --! check replaced_message_has_no_old_headers
  end
  if conflict ~= 'postpone' then return nil end
  local to, is_later, leaves_backoff = due, later, other.unack
  if max_wait and due > other.first / 1000 + max_wait then
    to = math.ceil(other.first / 1000 + max_wait)
    is_later = to > now
    leaves_backoff = false
  end
  if is_later or other.pending or leaves_backoff then
    move_due(id, body, {unack = other.unack, pending = other.pending, last = last}, math.max(to, now), is_later)
  end
end
for _, i in ipairs(replaced) do
  local refused = replace(i, others[i])
  if refused then return refused end
end
if #ends_of_windows > 0 then redis.call('HSET', unique, unpack(ends_of_windows)) end  --! check window_is_stored

-- What a refused call has left of messages that are not to be stored.
for i = 1, #may_be_left > 0 and messages or 0 do
  if answer[i] == 'U' or answer[i] == 'R' or answer[i] == 'F' then
    redis.call('UNLINK', KEYS.body[i])  --! check body_of_refused_call_is_deleted
    redis.call('HDEL', count, ids[i])  --! check count_of_refused_call_is_deleted
    delete_metadata(ids[i])  --! check metadata_of_refused_call_is_deleted
    redis.call('ZREM', pending, ids[i])  --! check place_of_refused_call_is_deleted
  end
end
if staged and #new + #replaced < messages then
  redis.pcall('UNLINK', unpack(KEYS.other[1, messages]))  --! check no_staged_payload_is_left
end
if #new > 0 then
  first = redis.pcall('HINCRBY', stats, 'sent', #new) == #new
  if is_probe then note_probe(created[1], now * 1000) end  --! check first_ready_is_probe
  set_marker(due, later)  --! check message_due_now_sets_marker
end

local named = {}
for i = 1, messages do
  if answer[i] == 'U' or answer[i] == 'R' or answer[i] == '?' then named[#named + 1] = ' ' .. others[i].id end
end
return table.concat(answer) .. (first and 'N' or '') .. table.concat(named)
