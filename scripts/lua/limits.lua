-- limits: read, set or copy the limits of one partition of a queue. Partition 0 has those of the queue, the others have
-- copies of them.
--! keys settings limits running
--! args mode generation parts part length rate period burst running
--! use generation
--
-- settings: limits: the generation of the last setting; length: see below
-- limits: exists while there are limits that a take has to keep; see also take_paced
-- running: see take_paced
-- mode: 'read'; 'set': in a new generation; 'copy': unless the partition has this generation or a later one
-- generation: to copy; 'set': of the limits that the caller has read
-- parts: among how many partitions the limits are divided; part: the number of this one
-- length: most messages that are not dead: senders keep this limit
-- rate: this number of messages are leased in a period of so many us; burst: most that may be leased at once
-- running: most messages in flight
--
-- All limits are those of the whole queue, also in a copy; '': there is none. They are written together, so one of two
-- callers is later, and its limits count. 'set' is refused if the partition has a generation that the caller has not
-- read. A generation that no client writes counts as absent, as in `pause`. When Redis is out of memory it refuses new
-- limits, and accepts their removal and each copy.
-- Returns {1, or 0: it was refused and nothing was written; generation, 0: there was no setting; parts, length, rate,
-- period, burst and running of the partition now, '': absent}.

local generation = generation_of('limits', 0)

local function answer(done)
  local values = redis.pcall('HMGET', limits, 'parts', 'rate', 'period', 'burst', 'running')
  if values.err then values = {} end
  local all = {done, string.format('%.0f', generation), values[1], redis.call('HGET', settings, 'length'), values[2],
    values[3], values[4], values[5]}
  for i = 3, 8 do all[i] = all[i] and string.sub(all[i], 1, 20) or '' end
  return all
end

local wanted, refused
if ARGV.mode == 'set' then
  if generation > tonumber(ARGV.generation) then return answer(0) end  --! check later_limits_are_not_overwritten
  wanted, refused = new_generation('limits', ARGV.generation + 1)
  if refused then return refused end
elseif ARGV.mode == 'copy' and tonumber(ARGV.generation) > generation then
  wanted = tonumber(ARGV.generation)
end
if not wanted then return answer(1) end

-- A key of another type cannot be used: it has no limits, and is replaced.
if type(redis.pcall('HLEN', limits)) ~= 'number' then redis.call('UNLINK', limits) end
if type(redis.pcall('ZCARD', running)) ~= 'number' then redis.call('UNLINK', running) end

-- So that Redis accepts the rest of a copy, and the removal of all limits, when out of memory: see nack.
local removes = ARGV.length .. ARGV.rate .. ARGV.running == ''
if ARGV.mode == 'copy' or removes then redis.call('HDEL', settings, '') end  --! check works_without_memory
local set, unset = {}, {'watch', 'full'}
local function put(field, value)
  if value == '' then
    unset[#unset + 1] = field
  else
    set[#set + 1] = field
    set[#set + 1] = value
  end
end
local takes = ARGV.rate .. ARGV.running ~= ''
for field, value in pairs({rate = ARGV.rate, period = ARGV.period, burst = ARGV.burst, running = ARGV.running,
  parts = takes and ARGV.parts or '', part = takes and ARGV.part or ''}) do
  put(field, value)
end
if ARGV.rate == '' then unset[#unset + 1] = 'tat' end
if #set > 0 then redis.call('HSET', limits, unpack(set)) end  --! check limits_are_stored
if ARGV.length ~= '' then redis.call('HSET', settings, 'length', ARGV.length) end
redis.call('HDEL', limits, unpack(unset))  --! check removed_limits_are_gone
if ARGV.length == '' then redis.call('HDEL', settings, 'length') end
if ARGV.running == '' then redis.call('UNLINK', running) end  --! check no_places_without_a_limit
redis.call('HSET', settings, 'limits', string.format('%.0f', wanted))
generation = wanted
return answer(1)
