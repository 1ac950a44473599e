-- EVALSHA sha 2 row schedule id payload at|in ms
--
--   KEYS   row       emq:{q}:job:<id>
--          schedule  emq:{q}:schedule
--   ARGV   id        starts with JOB
--          payload   opaque bytes
--          at|in     whether ms is a Unix time or counts from now
--          ms        when the job is due
--   Reply  1: scheduled; 0: the row exists, nothing changes
--   Error  EMQKIND: the id is not of a job

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
redis.call('ZCARD', KEYS[2]) -- another type has to end the script before it writes
if redis.call('HLEN', KEYS[1]) > 0 then
  return 0
end
local time = redis.call('TIME')
local from = {at = 0, ['in'] = time[1] * 1000 + math.floor(time[2] / 1000)}
local due = from[ARGV[3]] + ARGV[4]
redis.call('HSET', KEYS[1], 'state', 'scheduled', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[2], due, ARGV[1])
return 1
