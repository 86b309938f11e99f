--! keys stats
-- The probe is a hint, so its errors are ignored: see ready2unack. `since` is in us.
local function note_probe(id, since)
  redis.pcall('HSET', stats, 'probe', string.format('%s %.0f', id, since))  --! check first_ready_is_probe
end
