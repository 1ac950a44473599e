#!lua flags=allow-oom
-- EVALSHA sha 2 active row id token lease_ms run_id
--
--   KEYS   active    emq:{q}:active
--          row       emq:{q}:job:<id>
--   ARGV   id        starts with JOB
--          token     the attempts that the claim answered
--          lease_ms  how long the job is the caller's, from now
--          run_id    the server's
--   Reply  1: extended; -1: there is no such job
--   Error  EMQKIND: the id is not of a job; EMQSCRIPT: the row belongs to a lane (group) or a flow (parent);
--          EMQSTALE: the lease was lost or given back
--
-- A full memory is no reason to lose a lease, hence allow-oom.

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local leased = redis.call('ZSCORE', KEYS[1], ARGV[1])
if redis.call('HLEN', KEYS[2]) == 0 then
  return -1
end
local state, attempts, epoch, group, parent =
  unpack(redis.call('HMGET', KEYS[2], 'state', 'attempts', 'lease_epoch', 'group', 'parent'))
if group or parent then
  return redis.error_reply(
    'EMQSCRIPT the row has a ' .. (group and 'group' or 'parent') .. ': settle it with the scripts that own it')
end
local claimed = attempts and string.match(attempts, '^[1-9]%d*$') and tonumber(attempts) <= 9007199254740991
local held = claimed and attempts == ARGV[2] and (state == 'active' or state == 'pending' and epoch)
if not held or not leased then
  return redis.error_reply('EMQSTALE extend token mismatch')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = now + ARGV[3]
redis.call('HSET', KEYS[2], 'lease_epoch', ARGV[4])
redis.call('ZADD', KEYS[1], deadline, ARGV[1])
return 1
