#!lua flags=allow-oom
-- EVALSHA sha 1 base state id [id ...]
--
--   KEYS   base   emq:{q}:, of which the four sets and the rows are made
--   ARGV   state  pending, active, scheduled, dead or any
--          id     starts with JOB
--   Reply  for each job 1: removed; 0: there is no such job in that state; -2: the row belongs to a lane (group) or a flow
--          (parent)
--   Error  EMQKIND: an id is not of a job
--
-- A full memory is no reason to keep a job, hence allow-oom.

for i = 2, #ARGV do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
local sets = {'pending', 'active', 'schedule', 'dead'}
for _, set in ipairs(sets) do
  redis.call('ZCARD', KEYS[1] .. set) -- another type has to end the script before it writes
end
local statuses = {}
for i = 2, #ARGV do
  local row = KEYS[1] .. 'job:' .. ARGV[i]
  local is_row = redis.call('TYPE', row).ok == 'hash'
  local state, group, parent
  if is_row then
    state, group, parent = unpack(redis.call('HMGET', row, 'state', 'group', 'parent'))
  end
  if group or parent then
    statuses[#statuses + 1] = -2
  elseif not is_row or ARGV[1] ~= 'any' and state ~= ARGV[1] then
    statuses[#statuses + 1] = 0
  else
    for _, set in ipairs(sets) do
      redis.call('ZREM', KEYS[1] .. set, ARGV[i])
    end
    redis.call('DEL', row)
    statuses[#statuses + 1] = 1
  end
end
return statuses
