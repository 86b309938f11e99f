-- Stores bodies with this TTL, or without one. `bodies` has, after the key of each, its payload or, if they are staged,
-- the key that holds it. Returns the error if Redis refuses to make a staged payload a body.
local function store_bodies(bodies, is_staged, life)
  for i = 1, is_staged and #bodies or 0, 2 do
    local refused = take_staged(bodies[i + 1], bodies[i], life)
    if refused then return refused end
  end
  if not is_staged and not life then redis.call('MSET', unpack(bodies)) end
  for i = 1, not is_staged and life and #bodies or 0, 2 do redis.call('SET', bodies[i], bodies[i + 1], 'PX', life) end
end
