#!lua flags=allow-oom
-- EVALSHA sha 1 base id token delay_ms
--
--   KEYS   base      emq:{q}:, of which active, pending, schedule and the row are made
--   ARGV   id        starts with JOB
--          token     the attempts that the claim answered
--          delay_ms  0: the job can be claimed at once; else it is due in so many ms
--   Reply  pending or scheduled
--   Error  EMQKIND: the id is not of a job; EMQSCRIPT: the row belongs to a lane (group) or a flow (parent);
--          EMQSTALE: there is no such job, or the lease was lost or given back
--
-- A full memory is no reason to keep a job that was given back, hence allow-oom.

local id, token, delay = ARGV[1], ARGV[2], tonumber(ARGV[3])
if string.sub(id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local row, active, pending, schedule = KEYS[1] .. 'job:' .. id, KEYS[1] .. 'active', KEYS[1] .. 'pending', KEYS[1] .. 'schedule'
for _, set in ipairs({active, pending, schedule}) do
  redis.call('ZCARD', set) -- another type has to end the script before it writes
end
if redis.call('HLEN', row) == 0 then
  return redis.error_reply('EMQSTALE job gone')
end
local state, attempts, epoch, group, parent =
  unpack(redis.call('HMGET', row, 'state', 'attempts', 'lease_epoch', 'group', 'parent'))
if group or parent then
  return redis.error_reply(
    'EMQSCRIPT the row has a ' .. (group and 'group' or 'parent') .. ': settle it with the scripts that own it')
end
local claimed = attempts and string.match(attempts, '^[1-9]%d*$') and tonumber(attempts) <= 9007199254740991
if not claimed or attempts ~= token or not (state == 'active' or state == 'pending' and epoch) then
  return redis.error_reply('EMQSTALE release token mismatch')
end
local to = delay > 0 and 'scheduled' or 'pending'
if redis.call('ZREM', active, id) == 0 and delay > 0 then
  redis.call('ZREM', pending, id)
end
redis.call('HSET', row, 'state', to)
redis.call('HDEL', row, 'lease_epoch', 'stalled')
if delay > 0 then
  local time = redis.call('TIME')
  redis.call('ZADD', schedule, time[1] * 1000 + math.floor(time[2] / 1000) + delay, id)
else
  redis.call('ZADD', pending, 0, id)
end
return to
