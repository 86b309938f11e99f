--! keys pending unack attempts garbage ready retry wake stats
-- Moves a message that waits to another due time, in ms. `at`: its scores in unack and pending, and what attempts has
-- of it (`last`), if they have it.
-- A TTL moves with the due time. The end of the last lease is deleted, so a late ack is stale. If this message is the
-- probe, that is deleted: its time would be wrong when the message is ready again.
local function move_due(id, body, at, due, later)
  local list_length = math.max(redis.call('LLEN', ready), redis.call('LLEN', retry))
  local life = redis.call('PTTL', body)
  redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
  local new_life = life
  if life > 0 then
    -- If the body would expire before the due time, another program has set one of them: then the TTL counts from now.
    local from = at.pending and at.pending * 1000 - now < life and math.floor(at.pending * 1000 + 0.5) or now
    new_life = math.max(1, math.min(math.ceil(life + due - from), 9e15))
  end
  -- A longer TTL comes before the new place, a shorter one after it: a call that Redis refuses, and that is repeated,
  -- may leave a TTL that is too long, but none that ends too early.
  if new_life > life then redis.call('PEXPIRE', body, new_life) end
  if at.last then
    redis.call('HSET', attempts, id, string.match(at.last, '^%d+') or 1)
  elseif at.unack then
    redis.call('HSET', attempts, id, 1)  -- it was in the backoff after its first delivery
  end
  local searches = not (at.unack or at.pending) and list_length <= tonumber(ARGV.search_lists)
  local old_entries = searches and not later and #redis.call('LPOS', ready, id, 'COUNT', 0) or 0
  if later then
    redis.call('ZADD', pending, due / 1000, id)
  else
    redis.call('LPUSH', ready, id)
    redis.call('ZREM', pending, id)  --! check message_due_now_leaves_pending
  end
  if new_life < life then redis.call('PEXPIRE', body, new_life) end
  redis.call('ZREM', unack, id)  --! check message_leaves_its_backoff
  --! check rescheduled_message_leaves_garbage
  redis.call('SREM', garbage, id)  -- a Go worker put it there, but a zset still has it
  if searches then  -- after the message has its new place: a failure must not lose it
    if later then redis.call('LREM', ready, 0, id) end
    if old_entries > 0 then redis.call('LREM', ready, -old_entries, id) end
    redis.call('LREM', retry, 0, id)
  end
  drop_probe({id})  --! check probe_that_is_rescheduled_is_deleted

  -- A hint, so its errors are ignored: the marker wakes a consumer if the message is due now, or first in pending.
  local head = later and redis.pcall('ZRANGE', pending, 0, 0)[1]
  if not later or head == id then redis.pcall('ZADD', wake, 'LT', later and due / 1000 or 0, 'w') end
end
