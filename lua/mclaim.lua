-- EVALSHA sha 1 base lease_ms count run_id
--
--   KEYS   base      emq:{q}:, of which pending, active, schedule, dead and the rows are made
--   ARGV   lease_ms  how long the jobs are the caller's
--          count     jobs, at most
--          run_id    the server's
--   Reply  [id, payload, attempts] for each job; attempts is the token that the caller must present to settle it
--
-- An entry is dropped if no job is behind it, or if the job stands in the other set that its state names; a job whose
-- attempts cannot be counted up is dead. At the hundredth such entry the call ends. It does not look at gates.

local base, count = KEYS[1], tonumber(ARGV[2])
local pending, active, dead = base .. 'pending', base .. 'active', base .. 'dead'
local others = {active = active, scheduled = base .. 'schedule', dead = dead}
redis.call('ZCARD', pending) -- another type has to end the script before it writes
redis.call('ZCARD', active)
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]

local jobs, bad = {}, 0
while #jobs < count and bad < 100 do
  local id = redis.call('ZRANGE', pending, 0, 0)[1]
  if not id then
    break
  end
  redis.call('ZREM', pending, id)
  local row, granted = base .. 'job:' .. id, false
  if string.sub(id, 1, 3) == 'JOB' and redis.call('TYPE', row).ok == 'hash' then
    local state, attempts, payload = unpack(redis.call('HMGET', row, 'state', 'attempts', 'payload'))
    local canonical = attempts and (attempts == '0' or string.match(attempts, '^[1-9]%d*$'))
    if others[state] and type(redis.pcall('ZSCORE', others[state], id)) == 'string' then
      granted = false
    elseif canonical and tonumber(attempts) <= 9007199254740990 then
      granted = true
      redis.call('HSET', row, 'state', 'active', 'attempts', attempts + 1, 'lease_epoch', ARGV[3])
      redis.call('ZADD', active, deadline, id)
      jobs[#jobs + 1] = {id, payload, attempts + 1}
    else
      redis.call('HSET', row, 'state', 'dead', 'last_error',
        'bad row: attempts is missing or is no integer that can be counted up')
      redis.pcall('ZADD', dead, 0, id) -- left alone if it is no sorted set
    end
  end
  if not granted then
    bad = bad + 1
  end
end
return jobs
