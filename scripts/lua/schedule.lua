-- schedule: create, change, pause, resume or remove a schedule.
--! keys schedules slots open pending count unack dead garbage attempts reason headers stats wake retry keys waiting
--!   | body
--! args name mode generation slot definition most retries ttl payload | occurrence header
--! use clock schedules existing metadata drop_probe earlier marker occurrences
--
-- schedules, slots: see advance
-- open: see begin
-- waiting: the body of the occurrence of `slot`
-- body: of the first occurrence, for 'set' and 'resume'; absent: the schedule ends
-- mode: 'set', 'pause', 'resume' or 'remove'
-- generation, slot: as the caller has read them; generation 0: there is no schedule, or its text cannot be read;
--   slot in ms, '': there is none
-- definition: for 'set'
-- most: how many schedules the queue may have
-- retries, ttl, occurrence, header: see advance
--
-- Of two callers the later one counts: it is answered 'changed', and calls again. 'set' with the definition that is
-- stored changes nothing, so a paused schedule stays paused, and one that has ended stays so. With another definition
-- it has a new generation, begins with its first slot from now on, and stays paused if it is.
-- The occurrence of `slot` is removed if it is pending for a later time; else it stays. If it has the slot of the first
-- new one, it is replaced in its place.
-- The text is written last: a caller whose call was refused midway reads again what is there, and calls again.
-- A length that the queue is limited to keeps no occurrence out: see advance.
-- When Redis is out of memory it refuses 'set' and 'resume', and accepts the others.
-- Returns {outcome, text that is stored now, slot}: 'written'; 'same': nothing was to be changed; 'gone': there is no
-- such schedule; 'changed'; 'full'.

local mode = ARGV.mode
local generation, state, text, behind = read_schedule(ARGV.name)
local stored = slot_of(redis.call('ZSCORE', slots, ARGV.name))
--! check schedule_compares_generation_and_slot
if generation ~= tonumber(ARGV.generation) or stored ~= ARGV.slot then return {'changed', text or '', stored} end
redis.call('HLEN', open)

local slot = tonumber(stored)
local back = slot and slot * 1000 > now and waits_in(waiting_id, waiting, slot) == 'pending'

if mode == 'remove' then
  if not text and stored == '' then return {'gone', '', ''} end
  if back then take_back('cancelled') end  --! check removed_schedule_leaves_no_occurrence
  redis.call('HDEL', open, ARGV.name)  --! check removed_schedule_opens_nothing
  redis.call('ZREM', slots, ARGV.name)  --! check removed_schedule_has_no_slot
  redis.call('HDEL', schedules, ARGV.name)
  return {'written', '', ''}
end

local definition = generation > 0 and string.sub(text, behind)
if mode ~= 'set' and not definition then return {'gone', '', ''} end
local is_same = definition == ARGV.definition or mode ~= 'set'
local to
if mode == 'pause' then
  to = state == 'active' and 'paused' or state
elseif mode == 'resume' then
  to = state == 'paused' and 'active' or state
else
  to = definition and (is_same or state == 'paused') and state or 'active'
end
if is_same and to == state and (state ~= 'active' or stored ~= '') then return {'same', text, stored} end
if not text and redis.call('HLEN', schedules) >= tonumber(ARGV.most) then return {'full', '', ''} end
if mode == 'set' then definition = ARGV.definition end
if to == 'active' and #ids == 0 then to = 'ended' end
local wanted = math.max(now, generation + 1)
if wanted >= 2 ^ 53 then
  return redis.error_reply('ERR schedule: no generation can follow the one in ' .. schedules .. ', which no client ' ..
    'writes; remove the schedule')
end
text = string.format('%.0f %s\n', wanted, to) .. definition

-- Changes nothing; out of memory Redis refuses it, and so the whole script. For a pause the first write below frees
-- memory.
if to ~= 'paused' then
  redis.call('ZADD', pending, 'XX', 'GT', '-inf', '')  --! check refused_whole_without_memory
end

local first = to == 'active' and ARGV.occurrence[1]
if first and back and KEYS.body[1] == waiting then
  back = false
  local life = life_of(first)
  redis.call('HSET', headers, waiting_id, ARGV.header[1])  --! check replaced_occurrence_has_new_headers
  --! check replaced_occurrence_has_new_payload
  redis.call('SET', waiting, ARGV.payload, unpack(life and {'PX', life} or {}))
  redis.call('HSET', count, waiting_id, ARGV.retries)  --! check replaced_occurrence_has_new_retries
elseif first then
  store_occurrences()
end
if back then take_back('cancelled') end  --! check old_occurrence_is_taken_back
if first then
  redis.call('ZADD', slots, string.format('%.3f', first / 1000), ARGV.name)  --! check new_schedule_has_a_slot
else
  redis.call('ZREM', slots, ARGV.name)  --! check schedule_that_is_not_active_has_no_slot
end
redis.call('HSET', schedules, ARGV.name, text)
return {'written', text, first or ''}
