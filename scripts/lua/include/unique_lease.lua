--! keys unack
-- The first end of a lease from the wanted one on that is unique in unack, and no whole millisecond, which would be a
-- backoff: see nack. The span from the wanted end is doubled until it has an unused one; then a binary search finds it.
local function unused_in_span(from, length)
  local members = redis.call('ZCOUNT', unack, from / 1e6, (from + length - 1) / 1e6)
  return members + math.floor((from + length - 1) / 1000) - math.floor((from - 1) / 1000) < length
end
local function unique_lease(wanted)
  local span, lease = 1, wanted
  while not unused_in_span(lease, span) do span = 2 * span end  --! check lease_end_is_unique
  while span > 1 do
    span = span / 2
    if not unused_in_span(lease, span) then lease = lease + span end
  end
  return lease
end
