-- advance: store the next occurrence of a schedule whose newest one is due.
--! keys schedules slots open paused pending count unack dead garbage attempts reason headers stats wake retry keys
--!   waiting | body
--! args name generation slot last takes_back stays skips is_ahead retries ttl payload | occurrence header
--! use clock schedules existing metadata drop_probe earlier marker occurrences
--
-- schedules: name -> '<generation> <state>\n<definition>'; state: active, paused or ended
-- slots: name -> the slot of the newest occurrence that was stored; only of active schedules
-- open: of schedules whose occurrences do not overlap: see begin
-- waiting: the body of the occurrence of that slot
-- body: of each occurrence to store
-- generation, slot: as the caller has read them; slot in ms, '': there is none
-- last: the slot of the newest occurrence to store; '': there is none, and the schedule ends
-- takes_back: '1': the occurrence of `slot` is removed if it waits, since later slots have passed
-- stays: '1': it stays, since all missed ones are made up for
-- skips: '1': occurrences do not overlap
-- is_ahead: '1': the clock was set back, so `slot` is too far in the future: that occurrence is removed
-- retries, ttl: see send
-- occurrence: its slot in ms, in ascending order
-- header: packed headers
--
-- The caller computes the slots, and nothing is written unless all is as it has read it. So of two callers one
-- advances, and a repeated call changes nothing. Scores are compared as whole ms. An occurrence that exists stays.
-- The new occurrence is stored before the old one is removed, and the slot moves last: so a call that Redis refuses
-- midway can be repeated, and the schedule goes on. A length that the queue is limited to keeps no occurrence out:
-- there is one of each schedule, and else its slot would be lost.
-- Of occurrences that do not overlap, the one of `slot` is removed if it waits while an earlier one is alive.
-- Returns {outcome, number of occurrences stored, 1 if one was removed}, with outcome 'advanced'; or, and nothing was
-- written, 'changed': another generation, or not active; 'moved': another slot; 'paused': the queue is; 'early'.

local generation, state, text, behind = read_schedule(ARGV.name)
if generation == 0 or generation ~= tonumber(ARGV.generation) or state ~= 'active' then return {'changed', 0, 0} end
local stored = slot_of(redis.call('ZSCORE', slots, ARGV.name))
if stored ~= ARGV.slot then return {'moved', 0, 0} end  --! check advance_compares_the_slot
if redis.call('EXISTS', paused) == 1 then return {'paused', 0, 0} end  --! check paused_queue_is_not_advanced
local slot = tonumber(stored)
-- 25 h: hosts whose time zone data differ may disagree by as much about the next slot.
local is_ahead = slot and ARGV.is_ahead == '1' and ARGV.last ~= '' and slot > ARGV.last + 90000000
if slot and slot * 1000 > now and not is_ahead then return {'early', 0, 0} end  --! check advance_is_not_early

local waits = slot and waits_in(waiting_id, waiting, slot)
local back = waits and (ARGV.takes_back == '1' or is_ahead)

-- Which occurrence may be handled, of those that do not overlap.
redis.call('HLEN', open)
local noted
if ARGV.skips == '1' and slot and not is_ahead then
  local entry = redis.call('HSTRLEN', open, ARGV.name) <= 100 and redis.call('HGET', open, ARGV.name) or ''
  local first, id = string.match(entry, '^(%d+) (%S+) %d+$')
  local is_alive = id and id ~= waiting_id and redis.call('HGET', count, id)
  --! check nothing_piles_up
  if is_alive and waits and tonumber(first) < slot and ARGV.stays ~= '1' then back = waits end
  local newest, made = ARGV.slot, nil  -- the newest slot that has passed; the first of those to store
  for i = 1, #ids do
    if ARGV.occurrence[i] * 1000 <= now then
      newest = ARGV.occurrence[i]
      made = made or i
    end
  end
  if not is_alive then
    first, id = ARGV.slot, waiting_id
    if made and (back or not redis.call('HGET', count, waiting_id)) then
      first, id = ARGV.occurrence[made], ids[made]
    end
  end
  noted = first .. ' ' .. id .. ' ' .. newest
end

-- Changes nothing; out of memory Redis refuses it, and so the whole script.
redis.call('ZADD', pending, 'XX', 'GT', '-inf', '')  --! check refused_whole_without_memory
store_occurrences()
if noted then redis.call('HSET', open, ARGV.name, noted) end  --! check open_occurrence_is_noted
if back then take_back('skipped') end  --! check late_occurrence_is_taken_back
if ARGV.last ~= '' then
  redis.call('ZADD', slots, string.format('%.3f', ARGV.last / 1000), ARGV.name)  --! check slot_moves
else
  redis.call('ZREM', slots, ARGV.name)
  redis.call('HSET', schedules, ARGV.name, string.format('%.0f ended\n', generation) .. string.sub(text, behind))
end
return {'advanced', #new, back and 1 or 0}
