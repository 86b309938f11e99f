-- Makes a staged payload a body, with its TTL. Returns the error if Redis refuses that.
local function take_staged(payload, body, life)
  -- Before it is a body: none may expire too early, even if the next command is refused.
  if life then redis.call('PEXPIRE', payload, life) else redis.call('PERSIST', payload) end
  local renamed = redis.pcall('RENAME', payload, body)
  if not renamed.err then return nil end
  redis.pcall('PEXPIRE', payload, 1)  --! check refused_payload_expires
  return renamed
end
