-- The parts of an entry of `unique`: id, when the message was created (us), end of the window (us), or 0. An entry of
-- another form, which another program has written, has none: it counts as no entry.
local hex = '[%da-f]'
local entry_form = '^(' .. hex:rep(8) .. ('%-' .. hex:rep(4)):rep(3) .. '%-' .. hex:rep(12) .. ') (%d+) (%d+)$'
local function parse_entry(entry)
  return string.match(entry and #entry <= 70 and entry or '', entry_form)
end
