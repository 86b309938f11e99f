-- begin: may this occurrence be handled now, or is an earlier one alive?
--! keys open schedules count
--! args name slot id
--
-- open: name -> '<slot in ms> <id> <newest slot that has passed>': the occurrence that may be handled, of schedules
--   whose occurrences do not overlap. It counts only while that message has a retry count: a backoff, a snooze and the
--   lease of a dead process count, a dead letter does not
-- slot: of this occurrence, in ms; id: its id
--
-- Each delivery of such an occurrence calls this before its handler.
-- Returns 1: handle it. 0: an earlier one is alive, and this is the newest: settle it without a handler. 2: another one
-- is alive, and this is not the newest, since it was redriven or restored, or its call is late: it waits.

redis.call('HLEN', count)
if redis.call('HSTRLEN', schedules, ARGV.name) == 0 then return 1 end  --! check removed_schedule_notes_nothing
local entry = redis.call('HSTRLEN', open, ARGV.name) <= 100 and redis.call('HGET', open, ARGV.name) or ''
local slot, id, newest = string.match(entry, '^(%d+) (%S+) (%d+)$')
if id == ARGV.id then return 1 end
local own = tonumber(ARGV.slot)
if id and redis.call('HGET', count, id) then
  return tonumber(slot) < own and own >= tonumber(newest) and 0 or 2
end
redis.call('HDEL', open, '')  -- so that Redis accepts the rest when out of memory: see nack
--! check begun_occurrence_is_noted
redis.call('HSET', open, ARGV.name, ARGV.slot .. ' ' .. ARGV.id .. ' ' .. (newest or ARGV.slot))
return 1
