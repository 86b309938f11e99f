-- The parts of an entry of `unique`: id, when the message was created (us), end of the window (us), or 0. An entry of
-- another form, which another program has written, has none: it counts as no entry.
local hex = '[%da-f]'
local entry_form = '^(' .. hex:rep(8) .. ('%-' .. hex:rep(4)):rep(3) .. '%-' .. hex:rep(12) .. ') (%d+) (%d+)$'
local function parse_entry(entry)
  return string.match(entry and #entry <= 70 and entry or '', entry_form)
end
-- The end of the window of an entry, or 0. One of a clock that was set back since, or of another program, must not keep
-- sends out for ever.
local function window_of(first, ends, now_us)
  local is_possible = tonumber(first) <= now_us and ends - first <= 3.2e15  -- a hundred years
  return is_possible and tonumber(ends) or 0
end
