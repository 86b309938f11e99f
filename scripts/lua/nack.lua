-- nack: start the backoff of messages whose handler failed, or make them dead letters.
--! keys unack count attempts reason dead garbage stats running limits wake | body
--! args keep_dead | receipt delay reason
--! use clock ids ends leave
--
-- keep_dead: '1': dead letters are kept; '0': they go to garbage
-- receipt: see ack
-- delay: ms until the next delivery, or '' for none (dead letter)
--
-- The score in unack becomes the end of the backoff. Its digits tell the kinds apart: a backoff ends at a whole
-- millisecond that is no whole second, a lease of this library never at a whole millisecond, and a lease of a Go worker
-- at a whole second. unack2retry moves the message when the backoff has ended.
-- When Redis is out of memory, it refuses a command that may use memory, but only before the first write of a script.
-- So scripts that must work then begin with a ZREM of nothing, which uses none.
-- Returns one character per message: 'S' settled, 'D' settled and now dead, 'T' stale, 'G' gone.

local scores = redis.call('ZMSCORE', unack, unpack(ids))
local counts = redis.call('HMGET', count, unpack(ids))
redis.call('HLEN', attempts)
redis.call('HLEN', reason)
local in_dead = redis.call('ZMSCORE', dead, unpack(ids))
redis.call('SCARD', garbage)

local function finish(id)
  redis.call('SADD', garbage, id)
  redis.call('HDEL', count, id)
  redis.call('HDEL', attempts, id)
  redis.call('HDEL', reason, id)
  redis.call('ZREM', unack, id)
end

local function make_dead(i)
  local id = ids[i]
  if ARGV.keep_dead == '0' then return finish(id) end  --! check without_keep_dead_message_goes_garbage
  redis.call('ZADD', dead, now / 1000000, id)
  redis.call('PERSIST', KEYS.body[i])  --! check dead_letter_has_no_ttl
  redis.call('HDEL', count, id)
  redis.call('ZREM', unack, id)
end

local function back_off(id, delay)
  local till = math.ceil(now / 1000 + delay)
  if till % 1000 == 0 then till = till + 1 end  --! check backoff_ends_at_no_second
  redis.call('ZADD', unack, 'XX', till / 1000, id)
end

redis.call('ZREM', unack, '')  -- the first write: see above
local answer, settled, dead_letters, left = {}, 0, 0, {}
for i, id in ipairs(ids) do
  local receipt, delay, failure = ARGV.receipt[i], ARGV.delay[i], ARGV.reason[i]
  if not scores[i] then
    local finished = redis.call('EXISTS', KEYS.body[i]) == 0 or redis.call('SISMEMBER', garbage, id) == 1
    answer[i] = finished and 'G' or 'T'
  elseif end_of(scores[i]) ~= tonumber(receipt) then
    answer[i] = 'T'
  else
    settled = settled + 1
    left[settled] = id
    answer[i] = 'S'
    local retries = counts[i] and tonumber(string.match(counts[i], '^%d+$') or 0)
    if not retries and in_dead[i] then
      redis.call('ZREM', unack, id)  -- a call before made it dead, and Redis refused the rest
    elseif not retries then
      finish(id)  -- cancelled while it was held
    else
      redis.call('HSET', reason, id, failure)  --! check reason_is_kept
      if delay == '' or retries < 1 then
        answer[i] = 'D'
        dead_letters = dead_letters + 1
        make_dead(i)
      else
        back_off(id, delay)
      end
    end
  end
end
leave(left)  --! check failed_message_frees_its_place
if settled > 0 then redis.pcall('HINCRBY', stats, 'nacked', settled) end
if dead_letters > 0 then redis.pcall('HINCRBY', stats, 'dead', dead_letters) end
return table.concat(answer)
