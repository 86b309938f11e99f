-- unlock: let the next operator in. A lock that ended by itself may be another's by now.
--
-- KEYS[1] lock    string  its holder; gone when its time is over
-- ARGV[1] holder
--
-- Returns 1: it was held, and is free; 0: it was not.
if redis.call('GETRANGE', KEYS[1], 0, -1) ~= ARGV[1] then return 0 end
return redis.call('UNLINK', KEYS[1])
