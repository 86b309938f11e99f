--! keys pending unack dead attempts
-- Removes what earlier messages with these ids have left behind. If retry has entries, one of them may be of such a
-- message: it must not count as a delivery of the new one. later: the new messages are in pending.
local function remove_earlier(ids, has_retry_entries, later)
  if not later then redis.call('ZREM', pending, unpack(ids)) end  --! check new_message_leaves_pending
  redis.call('ZREM', unack, unpack(ids))  --! check new_message_leaves_unack
  redis.call('ZREM', dead, unpack(ids))  --! check new_message_leaves_dead
  delete_metadata(unpack(ids))  --! check no_old_metadata
  drop_probe(ids)  --! check old_probe_is_deleted
  local undelivered = {}
  for i = 1, #ids do
    undelivered[2 * i - 1] = ids[i]
    undelivered[2 * i] = '0'
  end
  if has_retry_entries then redis.call('HSET', attempts, unpack(undelivered)) end  --! check old_entry_is_no_delivery
end
