-- Whether the messages `owners`, which are stored or made alive again, can take the keys `names`. `body_of`: id -> the
-- key of the body, of the messages that the call names. Returns for each 'S' it can, 'K' another message has the key or
-- one before it takes it, '?' the body of a message that may have it is not named; the fields and values for `unique`,
-- in which a window of the key stays; and the ids of the messages for '?', each behind a space.
local function take_keys(names, owners, body_of)
  local others, is_taken, outcomes, entries, asked = holders_of(names, now), {}, {}, {}, {}
  for n, name in ipairs(names) do
    local other = others[n]
    local is_held = other and other.alive and other.id ~= owners[n]
    if is_taken[name] then
      outcomes[n] = 'K'
    elseif is_held and not body_of[other.id] then
      outcomes[n] = '?'
      asked[#asked + 1] = ' ' .. other.id
    elseif is_held and redis.call('EXISTS', body_of[other.id]) == 1 then
      outcomes[n] = 'K'
    else
      outcomes[n] = 'S'
      is_taken[name] = true
      entries[#entries + 1] = name
      entries[#entries + 1] = string.format('%s %.0f %.0f', owners[n], now, other and other.ends or 0)
    end
  end
  return outcomes, entries, table.concat(asked)
end
