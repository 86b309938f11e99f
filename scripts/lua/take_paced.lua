-- take_paced: ready2unack for a queue with limits.
--! keys ready retry unack pending dead count attempts garbage paused stats headers limits running wake keys
--! args total since_retry retry_max lease poison_max poison_skip caller
--! use clock unique_lease probe ends take pace
--
-- limits: the limits, as `limits` writes them; besides, tat: when the bucket of the rate is full again, in us; watch:
--   '<us> <consumer>': this consumer takes the next token, at that time; full: a take was refused, because the messages
--   in flight were as many as may be
-- running: id -> the end of the lease, as far as it is known: the messages in flight that take_paced has leased
-- total, retry_max ... poison_skip: see ready2unack
-- since_retry: messages that the caller has taken since retry had its share, which is one of eight
-- caller: name of the calling consumer, which has room for `total`
--
-- Each lease uses a token of the rate, that of a redelivery, too; none is given back. The tokens are used before there
-- are leases: a call that Redis refuses midway may waste some, but no more messages than the rate allows are leased.
-- An entry of `running` counts while its message has a lease. Those that leave unack leave `running`. What another
-- program has settled is found when the places are used up and its lease should have ended; a lease that was renewed
-- has its new end then. A lease that has ended counts until unack2retry has moved the message.
-- One consumer watches for the next token: that which finds none and no other watcher. A watch counts until 200 ms
-- after its time. A watcher that needs no further message wakes another consumer to take its place, and a take that
-- leaves messages, tokens and places wakes another one to take them.
-- Returns what ready2unack returns, followed by {1 if the queue has limits, what held back messages: 'rate', 'running'
-- or '', us until the caller is to call again, since it watches for a token; -1: it does not}.

local wanted = tonumber(ARGV.total)
local allowed, held_by, wait = wanted, '', -1
local has_limits = redis.call('EXISTS', limits)

local function paced(result)
  if result.err then return result end
  for _, value in ipairs({has_limits, held_by, wait}) do result[#result + 1] = value end
  return result
end

local existing = redis.call('EXISTS', paused, keys)
if existing > 0 and redis.call('EXISTS', paused) == 1 then
  retry_length = 0  --! check paused_queue_has_no_retry
  return paced(answer())
end
has_headers = math.min(redis.call('HLEN', headers), 1) + 2 * existing

if tokens and tokens < allowed then allowed, held_by = tokens, 'rate' end

-- Which of these entries are of no lease, and which have another end than is known.
local gone, renewed = {}, {}
local function examine(entries)
  local scores = #entries > 0 and redis.call('ZMSCORE', unack, unpack(entries)) or {}
  for i, id in ipairs(entries) do
    local ends = scores[i] and end_of(scores[i])
    if not ends or is_backoff(ends) then
      gone[#gone + 1] = id
    elseif ends > now then
      renewed[#renewed + 1] = scores[i]
      renewed[#renewed + 1] = id
    end
  end
end
local function write_examined()
  if #renewed > 0 then redis.call('ZADD', running, 'XX', unpack(renewed)) end  --! check renewed_lease_keeps_its_place
  if #gone > 0 then redis.call('ZREM', running, unpack(gone)) end  --! check place_without_lease_is_free
  gone, renewed = {}, {}
end
if most_running and allowed > 0 then
  if in_flight + allowed > most_running then  -- look at those whose leases should have ended
    examine(redis.call('ZRANGEBYSCORE', running, '-inf', now / 1000000, 'LIMIT', 0, 200))
  end
  in_flight = in_flight - #gone
  if most_running - in_flight < allowed then allowed, held_by = math.max(0, most_running - in_flight), 'running' end
end

local leased = 0
local function use(leases, number_of_leases)
  leased = number_of_leases
  if interval then
    full_at = math.ceil((full_at + leased * interval) * 4) / 4  -- as exact as a number of this size can be
    redis.call('HSET', limits, 'tat', string.format('%.2f', full_at))  --! check tokens_are_used
  end
  if most_running then
    write_examined()
    redis.call('ZADD', running, unpack(leases))  --! check place_is_used
  end
end
local function correct(entries)  -- a hint of the lists may be of a message in a backoff
  if not most_running then return end
  examine(entries)
  write_examined()  --! check hint_of_a_backoff_uses_no_place
end
local retry_share = math.min(math.floor((ARGV.since_retry + allowed) / 8), retry_max)
local result = allowed > 0 and take(allowed, retry_share, use, correct) or answer()
if result.err then return result end
local has_work = (interval or most_running) and (redis.call('LLEN', ready) > 0 or redis.call('LLEN', retry) > 0)
if not has_work then held_by = '' end  --! check limits_that_bind_nothing_hold_back_nothing
local stores_time = is_ahead and leased == 0  -- else it would be too late again for the next take
if stores_time or #gone + #renewed > 0 then
  redis.call('ZREM', unack, '')  -- so that Redis accepts the rest when out of memory: see nack
  write_examined()
  if stores_time then redis.call('HSET', limits, 'tat', string.format('%.2f', full_at)) end  --! check late_time_is_cut
end

-- Who looks next. All of this is hints, so its errors are ignored.
local function wake_at(score) redis.pcall('ZADD', wake, 'LT', score, 'w') end
local at, watcher = string.match(stored[8] or '', '^(%d+) (.+)$')
if has_work then
  local has_tokens = not interval or next_token(0) <= 1
  local has_places = not most_running or in_flight + leased < most_running
  if held_by == 'running' then
    redis.pcall('HSET', limits, 'full', '1')
  elseif has_tokens and has_places then
    -- What is left may be in retry, where the caller wants nothing: then it must not wake itself.
    if leased > 0 or wanted == 0 or redis.call('LLEN', ready) > 0 then wake_at(0) end
  elseif not has_tokens then
    -- At a high rate not for each token: 2 ms of them at once, if the bucket holds twice as many.
    local due = now + math.max(next_token(0), math.min(2000, math.floor(burst * interval / 2)))
    local other = watcher and watcher ~= ARGV.caller and tonumber(at) >= now - 200000 and tonumber(at) <= due + 1000
    if held_by == 'rate' and not other then
      wait = due - now
      redis.pcall('HSET', limits, 'watch', string.format('%.0f %s', due, ARGV.caller))
    elseif held_by == '' and watcher == ARGV.caller then
      wake_at(0)
    elseif held_by == '' and not other then
      wake_at(due / 1000000)
    end
  end
end
if wait == -1 and watcher == ARGV.caller then
  redis.pcall('HDEL', limits, 'watch')  --! check watch_is_given_back
end
return paced(result)
