-- find: the state of one message, and its metadata. Writes nothing.
--
-- KEYS[1] body of the message; the last 36 characters are its id
-- KEYS[2] pending   zset
-- KEYS[3] unack     zset
-- KEYS[4] dead      zset
-- KEYS[5] retry:cnt hash
-- KEYS[6] attempts  hash  id -> '<deliveries> <end of the last lease in us>'
-- KEYS[7] reason    hash
-- KEYS[8] garbage   set
--
-- An id with a retry count that is in no zset is in a list: in retry if attempts has the end of its last lease, else in
-- ready.
-- Returns {state, score in us or '', retries or '', attempts or '', reason or ''}, the last three cut to 64, 64 and
-- 1,024 characters. The state is 'unknown' if the message is finished, or never existed.
local body, pending, unack, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, attempts, reason, garbage = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id = string.sub(body, -36)

local retries = redis.call('HGET', count, id)
local last = redis.call('HGET', attempts, id)
local function found(state, score)
  return {state, score and string.format('%.0f', score * 1000000) or '', string.sub(retries or '', 1, 64),
    string.sub(last or '', 1, 64), string.sub(redis.call('HGET', reason, id) or '', 1, 1024)}
end

for _, zset in ipairs({{'pending', pending}, {'unack', unack}, {'dead', dead}}) do
  local score = redis.call('ZSCORE', zset[2], id)
  if score then return found(zset[1], score) end
end
if not retries or redis.call('SISMEMBER', garbage, id) == 1 then return found('unknown') end
return found(last and string.find(last, ' ', 1, true) and 'retry' or 'ready')
