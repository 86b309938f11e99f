--! keys settings
-- The generation of a setting, which is a field of `settings`. One that no client writes counts as absent, and so does
-- one of 2^53 or more: Lua cannot add 1 to it.
local function generation_of(field, absent)
  local text = redis.call('HGET', settings, field)
  local generation = text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) or absent
  if generation >= 2 ^ 53 then generation = absent end  --! check generation_is_below_2_53
  return generation
end
-- A new one: at least `least` and the time in us; with this remainder when it is divided by 2, if that is given. Or the
-- error that there can be none.
local function new_generation(field, least, remainder)
  local time = redis.call('TIME')
  local generation = math.max(time[1] * 1000000 + time[2], least)
  if remainder and generation % 2 ~= remainder then generation = generation + 1 end  --! check pause_is_odd
  if generation < 2 ^ 53 then return generation end
  return nil, redis.error_reply('ERR ' .. field .. ': no generation can follow the one in ' .. settings .. ', which ' ..
    'no client writes; delete its field ' .. field .. ', in all partitions')
end
