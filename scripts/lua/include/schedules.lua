--! keys schedules slots
-- What is stored of schedules. Other programs may write anything.
-- Returns the generation, the state, the text and where the definition begins in it. The generation is 0 if the text
-- cannot be read, or is longer than 128 KiB (text: ''), or if there is none (text: false).
local function read_schedule(name)
  local length = redis.call('HSTRLEN', schedules, name)
  local text = length <= 131072 and redis.call('HGET', schedules, name)
  if length > 131072 then text = '' end
  local generation, state, behind = string.match(string.sub(text or '', 1, 40), '^(%d+) (%l+)\n()')
  if not generation or #generation > 16 or tonumber(generation) >= 2 ^ 53 then return 0, '', text, 1 end
  return tonumber(generation), state, text, behind
end
-- A slot in ms; '': there is none, or the score is one that no slot has.
local function slot_of(score)
  local seconds = tonumber(score)
  return seconds and seconds >= 0 and seconds <= 7258118399.999 and string.format('%.0f', seconds * 1000) or ''
end
