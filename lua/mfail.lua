#!lua flags=allow-oom
-- EVALSHA sha 1 base max id token delay_ms error [id token delay_ms error ...]
--
--   KEYS   base      emq:{q}:, of which active, pending, schedule, dead, metrics:failed and the rows are made
--   ARGV   max       failures at which a job is dead
--          id        starts with JOB
--          token     the attempts that the claim answered
--          delay_ms  until the job is due again
--          error     what went wrong, opaque bytes
--   Reply  for each job 1: scheduled; 2: dead; 0: there is no such job; -1: the lease was lost or given back; -2: the row
--          belongs to a lane (group) or a flow (parent)
--   Error  EMQKIND: an id is not of a job
--
-- A full memory is no reason to keep a job that failed, hence allow-oom.

for i = 2, #ARGV, 4 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
local active, pending = KEYS[1] .. 'active', KEYS[1] .. 'pending'
local schedule, dead = KEYS[1] .. 'schedule', KEYS[1] .. 'dead'
for _, set in ipairs({active, pending, schedule, dead}) do
  redis.call('ZCARD', set) -- another type has to end the script before it writes
end
local time = redis.call('TIME')
local now, most = time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1] + 0
local due = {}
for i = 4, #ARGV, 4 do
  due[i] = now + ARGV[i] -- what is not a number has to end it too
end

-- counted is a counter's next value; one that is no canonical integer, or cannot be counted up, counts as 0.
local function counted(text)
  local n = text and string.match(text, '^[1-9]%d*$') and tonumber(text) or 0
  return n <= 9007199254740990 and n + 1 or 1
end

local function fail(id, token, at, why)
  local row = KEYS[1] .. 'job:' .. id
  if redis.call('TYPE', row).ok ~= 'hash' then
    return 0
  end
  local state, attempts, epoch, failures, group, parent =
    unpack(redis.call('HMGET', row, 'state', 'attempts', 'lease_epoch', 'failures', 'group', 'parent'))
  if group or parent then
    return -2
  end
  local claimed = attempts and string.match(attempts, '^[1-9]%d*$') and tonumber(attempts) <= 9007199254740991
  if not claimed or attempts ~= token or not (state == 'active' or state == 'pending' and epoch) then
    return -1
  end
  if redis.call('ZREM', active, id) == 0 then
    redis.call('ZREM', pending, id)
  end
  failures = counted(failures)
  local last = failures >= most
  redis.call('HSET', row, 'state', last and 'dead' or 'scheduled', 'failures', failures, 'last_error', why)
  redis.call('HDEL', row, 'lease_epoch', 'stalled')
  redis.call('ZADD', last and dead or schedule, last and 0 or at, id)
  return last and 2 or 1
end

local statuses, buried = {}, 0
for i = 2, #ARGV, 4 do
  local status = fail(ARGV[i], ARGV[i + 1], due[i + 2], ARGV[i + 3])
  statuses[#statuses + 1] = status
  if status == 2 then
    buried = buried + 1
  end
end
if buried > 0 then
  redis.pcall('HINCRBY', KEYS[1] .. 'metrics:failed', 'count', buried) -- left alone if it cannot be incremented
end
return statuses
