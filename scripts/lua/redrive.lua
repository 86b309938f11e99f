-- redrive: make dead letters ready again.
--! keys dead ready count attempts reason garbage stats retry | body
--! args retries
--! use ids drop_probe
--
-- retries: of each
--
-- Deliveries and reason are deleted, and a late ack of the last lease is stale. A probe that is one of them is deleted:
-- see reschedule.
-- Returns one character per message: 'S' ready again, 'B' its body is gone, so it goes to garbage, 'G' not dead.

local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
redis.call('LLEN', ready)
local has_retry_entries = redis.call('LLEN', retry) > 0  -- see send
redis.call('HLEN', count)
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
redis.call('SCARD', garbage)

local answer, back, counts, gone = {}, {}, {}, {}
for i, id in ipairs(ids) do
  if not in_dead[i] then
    answer[i] = 'G'
  elseif redis.call('EXISTS', KEYS.body[i]) == 0 then
    answer[i] = 'B'
    gone[#gone + 1] = id
  else
    answer[i] = 'S'
    back[#back + 1] = id
    counts[#counts + 1] = id
    counts[#counts + 1] = ARGV.retries
  end
end
if #back > 0 then
  redis.call('HSET', count, unpack(counts))  -- the first write: out of memory Redis refuses the whole script
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
return table.concat(answer)
