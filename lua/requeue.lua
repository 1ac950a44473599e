#!lua flags=allow-oom
-- EVALSHA sha 1 base state id [id ...]
--
--   KEYS   base   emq:{q}:, of which the four sets and the rows are made
--   ARGV   state  dead or scheduled
--          id     starts with JOB
--   Reply  for each job 1: moved to pending; 0: there is no such job in that state; -2: the row belongs to a lane (group) or
--          a flow (parent)
--   Error  EMQKIND: an id is not of a job
--
-- A dead job starts afresh; attempts stays. A full memory is no reason to leave a job where it is, hence allow-oom.

for i = 2, #ARGV do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
for _, set in ipairs({'pending', 'active', 'schedule', 'dead'}) do
  redis.call('ZCARD', KEYS[1] .. set) -- another type has to end the script before it writes
end
local statuses = {}
for i = 2, #ARGV do
  local row = KEYS[1] .. 'job:' .. ARGV[i]
  local state, group, parent
  if redis.call('TYPE', row).ok == 'hash' then
    state, group, parent = unpack(redis.call('HMGET', row, 'state', 'group', 'parent'))
  end
  if group or parent then
    statuses[#statuses + 1] = -2
  elseif state ~= ARGV[1] then
    statuses[#statuses + 1] = 0
  else
    redis.call('ZREM', KEYS[1] .. (state == 'dead' and 'dead' or 'schedule'), ARGV[i])
    redis.call('HSET', row, 'state', 'pending')
    if state == 'dead' then
      redis.call('HDEL', row, 'failures', 'stalled', 'last_error', 'lease_epoch')
    end
    redis.call('ZADD', KEYS[1] .. 'pending', 0, ARGV[i])
    statuses[#statuses + 1] = 1
  end
end
return statuses
