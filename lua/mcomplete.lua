#!lua flags=allow-oom
-- EVALSHA sha 1 base id token [id token ...]
--
--   KEYS   base   emq:{q}:, of which active, pending, metrics:completed and the rows are made
--   ARGV   id     starts with JOB
--          token  the attempts that the claim answered
--   Reply  for each job 1: settled; 0: there is no such job; -1: the lease was lost or given back; -2: the row belongs to a
--          lane (group) or a flow (parent)
--   Error  EMQKIND: an id is not of a job
--
-- A full memory is no reason to keep what is done, hence allow-oom.

for i = 1, #ARGV, 2 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
local active, pending = KEYS[1] .. 'active', KEYS[1] .. 'pending'
redis.call('ZCARD', active) -- another type has to end the script before it writes
redis.call('ZCARD', pending)

local function settle(id, token)
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
  if not claimed or attempts ~= token or not (state == 'active' or state == 'pending' and epoch) then
    return -1
  end
  if redis.call('ZREM', active, id) == 0 then
    redis.call('ZREM', pending, id)
  end
  redis.call('DEL', row)
  return 1
end

local statuses, done = {}, 0
for i = 1, #ARGV, 2 do
  local status = settle(ARGV[i], ARGV[i + 1])
  statuses[#statuses + 1] = status
  done = done + math.max(status, 0)
end
if done > 0 then
  redis.pcall('HINCRBY', KEYS[1] .. 'metrics:completed', 'count', done) -- left alone if it cannot be incremented
end
return statuses
