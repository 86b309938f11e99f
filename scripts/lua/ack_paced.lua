-- ack_paced: ack for messages that take_paced has leased, or that may have unique keys.
--! keys unack count attempts reason pending dead garbage stats headers running limits wake unique keys | body
--! args counted_as | receipt
--! use ack leave entry free_keys
--
-- What ack does; and the messages free their places (see take_paced) and their keys (see send_keyed).
-- Returns what ack returns.

return ack(function(ids)
  leave(ids)
  free_keys(ids)
end)
