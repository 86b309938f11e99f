-- correct_places: correct the entries of `running` for some messages.
--! keys running limits unack wake | body
--! args before_id
--! use any_ids ends leave
--
-- running: see take_paced
-- before_id: length of a body's key without the id; the id may be any text
--
-- A message without a lease leaves `running`: another program has settled it, or has written the entry. One that has a
-- lease enters it if the number in flight is limited: it was leased before there was the limit. An entry that is there
-- stays as it is: so none changes its rank during a walk over all.
-- Returns the number of entries removed.

local scores = redis.call('ZMSCORE', unack, unpack(ids))
if type(redis.pcall('ZCARD', running)) ~= 'number' then return 0 end
local is_limited = redis.pcall('HMGET', limits, 'running')[1]

local left, leased = {}, {}
for i, id in ipairs(ids) do
  if not scores[i] or is_backoff(end_of(scores[i])) then
    left[#left + 1] = id
  elseif is_limited then
    leased[#leased + 1] = scores[i]
    leased[#leased + 1] = id
  end
end
redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
if #leased > 0 then redis.call('ZADD', running, 'NX', unpack(leased)) end  --! check leased_message_has_a_place
leave(left)  --! check place_without_lease_is_free
return #left
