-- The end of a lease or backoff in us, from its score. Its digits tell the kinds apart: see nack.
local function end_of(score)
  return math.floor(score * 1000000 + 0.5)
end
local function is_backoff(ends)
  return ends % 1000 == 0 and ends % 1000000 ~= 0
end
