-- cancel: delete a message that is not held; drop the retries of one that is.
--! keys body pending unack dead count attempts reason garbage ready retry stats headers keys unique
--! args search_lists | key
--! use ends metadata entry free_keys by_key
--
-- search_lists: the id is removed from the lists if neither is longer than this. Else it stays, and
--   ready2unack skips it
-- key: absent, or the unique key that the message must hold
--
-- A message is finished if it has no body, or if it is in garbage and in no zset. One in a zset can still be delivered.
-- Returns its state: 'pending', 'ready', 'retry' or 'dead' (it is deleted); 'unack' (a consumer holds it, and it will
-- not be delivered again; a second call returns the same); 'unknown'. During a backoff the state is 'retry'. To a call
-- with a key also the answers of by_key. The key of the message is free then, also if its window is not over.

local id = string.sub(body, -36)

local by_key = #ARGV.key > 0 and refused_by_key(id, ARGV.key[1])
if by_key then return by_key end

local score = redis.call('ZSCORE', unack, id)
local in_pending = redis.call('ZSCORE', pending, id)
local in_dead = redis.call('ZSCORE', dead, id)
local retries = redis.call('HGET', count, id)
local last = redis.call('HGET', attempts, id)
local in_zset = score or in_pending or in_dead
local finished = redis.call('SISMEMBER', garbage, id) == 1 and not in_zset or redis.call('EXISTS', body) == 0
local list_length = math.max(redis.call('LLEN', ready), redis.call('LLEN', retry))
redis.call('HLEN', reason)
redis.call('HLEN', headers)
if finished then return 'unknown' end

local state
if score and (retries or not in_dead) then
  if not is_backoff(end_of(score)) then
    if not retries then return 'unack' end  --! check held_message_is_cancelled_once
    redis.call('HDEL', count, id)
    --! check taken_message_leaves_pending
    redis.call('ZREM', pending, id)  -- rescheduled, but a Go worker took it from the list
    free_keys({id}, true)  --! check key_of_held_message_is_free
    redis.pcall('HINCRBY', stats, 'cancelled', 1)
    return 'unack'
  end
  state = 'retry'
elseif in_pending then
  state = 'pending'
elseif in_dead then
  state = 'dead'
elseif not retries then
  return 'unknown'
else
  state = last and string.find(last, ' ', 1, true) and 'retry' or 'ready'
end

if not in_zset and list_length <= tonumber(ARGV.search_lists) then
  redis.call('LREM', ready, 0, id)
  redis.call('LREM', retry, 0, id)
end
redis.call('UNLINK', body)  --! check body_is_deleted
redis.call('HDEL', count, id)  --! check count_is_deleted
free_keys({id}, true)  --! check key_is_free
delete_metadata(id)  --! check metadata_is_deleted
redis.call('ZREM', pending, id)
redis.call('ZREM', unack, id)  --! check message_leaves_unack
redis.call('ZREM', dead, id)  --! check message_leaves_dead
redis.pcall('HINCRBY', stats, 'cancelled', 1)
return state
