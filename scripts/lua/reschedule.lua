-- reschedule: change the due time of a message that is neither held nor dead.
--! keys body pending unack dead count attempts garbage ready retry wake stats unique keys
--! args delay due search_lists | key
--! use due ends drop_probe move_due entry by_key
--
-- delay: in ms, or ''
-- due: in ms since 1970, used when there is no delay
-- search_lists: the id is removed from the lists if neither is longer than this. Else it stays, and
--   ready2unack skips it
-- key: absent, or the unique key that the message must hold
--
-- A TTL moves with the due time, and a late ack is stale: see move_due.
-- Returns 'moved', 'held' (even if cancelled since), 'dead', or 'unknown' (also without a retry count, since
-- ready2unack would not deliver it). To a call with a key also the answers of by_key.

local id = string.sub(body, -36)

local by_key = #ARGV.key > 0 and refused_by_key(id, ARGV.key[1])
if by_key then return by_key end

local unack_score = redis.call('ZSCORE', unack, id)
local pending_score = redis.call('ZSCORE', pending, id)
local in_dead = redis.call('ZSCORE', dead, id)
local retries = redis.call('HGET', count, id)
local last = redis.call('HGET', attempts, id)
local in_zset = unack_score or pending_score or in_dead
local finished = redis.call('SISMEMBER', garbage, id) == 1 and not in_zset or redis.call('EXISTS', body) == 0
if finished then return 'unknown' end
if in_dead then return 'dead' end  --! check dead_letter_is_refused
if unack_score and not is_backoff(end_of(unack_score)) then return 'held' end
if not retries then return 'unknown' end  -- it would be dropped when it is due  --! check no_count_is_unknown

move_due(id, body, {unack = unack_score, pending = pending_score, last = last}, due, later)
return 'moved'
