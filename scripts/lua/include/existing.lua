--! keys count garbage unack dead
-- Which messages exist already. A message is finished, and is created again, if it has no body; if it is in garbage,
-- neither in unack nor dead; or if it has no retry count and is not dead, since nothing would deliver it. But while a
-- consumer holds a cancelled message, nothing is stored: a Go worker settles by the id alone, so it would settle the
-- new message.
-- Returns one character per message: '1' to create, '0' exists, 'C' was cancelled and a consumer still holds it; the
-- ids to create; and those of them that have the count of a finished message.
local function find_existing(ids)
  local finished = redis.call('SMISMEMBER', garbage, unpack(ids))
  local counts = redis.call('HMGET', count, unpack(ids))
  local seen = {}
  local function outcome_of(i, id)
    if seen[id] then return '0' end  --! check one_message_for_each_id
    if redis.call('EXISTS', KEYS.body[i]) == 0 then return '1' end  --! check id_without_body_is_new
    if counts[i] and finished[i] == 0 or redis.call('ZSCORE', dead, id) then return '0' end
    if not redis.call('ZSCORE', unack, id) then return '1' end
    return counts[i] and '0' or 'C'
  end
  local outcomes, new, counted = {}, {}, {}
  for i, id in ipairs(ids) do
    outcomes[i] = outcome_of(i, id)
    if outcomes[i] == '1' then
      seen[id] = true
      new[#new + 1] = id
      if counts[i] then counted[#counted + 1] = id end
    end
  end
  return outcomes, new, counted
end
