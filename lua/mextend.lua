#!lua flags=allow-oom
-- EVALSHA sha 1 base lease_ms id token [id token ...] run_id
--
--   KEYS   base      emq:{q}:, of which active and the rows are made
--   ARGV   lease_ms  how long the jobs are the caller's, from now
--          id        starts with JOB
--          token     the attempts that the claim answered
--          run_id    the server's
--   Reply  for each job 1: extended; 0: there is no such job; -1: the lease was lost or given back; -2: the row belongs to a
--          lane (group) or a flow (parent)
--   Error  EMQKIND: an id is not of a job
--
-- A full memory is no reason to lose a lease, hence allow-oom.

for i = 2, #ARGV - 1, 2 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
local active = KEYS[1] .. 'active'
redis.call('ZCARD', active) -- another type has to end the script before it writes
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]

local function extend(id, token)
  local row = KEYS[1] .. 'job:' .. id
  if redis.call('TYPE', row).ok ~= 'hash' then
    return 0
  end
  local state, attempts, epoch, group, parent =
    unpack(redis.call('HMGET', row, 'state', 'attempts', 'lease_epoch', 'group', 'parent'))
  if group or parent then
    return -2
  end
  local claimed = attempts and string.match(attempts, '^[1-9]%d*$') and tonumber(attempts) <= 9007199254740991
  local held = claimed and attempts == token and (state == 'active' or state == 'pending' and epoch)
  if not held or not redis.call('ZSCORE', active, id) then
    return -1
  end
  redis.call('HSET', row, 'lease_epoch', ARGV[#ARGV])
  redis.call('ZADD', active, deadline, id)
  return 1
end

local statuses = {}
for i = 2, #ARGV - 1, 2 do
  statuses[#statuses + 1] = extend(ARGV[i], ARGV[i + 1])
end
return statuses
