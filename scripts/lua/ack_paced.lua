-- ack_paced: ack for messages that take_paced has leased.
--! keys unack count attempts reason pending dead garbage stats headers running limits wake | body
--! args counted_as | receipt
--! use ack leave
--
-- What ack does; and the messages free their places: see take_paced.
-- Returns what ack returns.

return ack(leave)
