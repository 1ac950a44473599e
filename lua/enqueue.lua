-- EVALSHA sha 2 row pending id payload
--
--   KEYS   row      emq:{q}:job:<id>
--          pending  emq:{q}:pending
--   ARGV   id       starts with JOB
--          payload  opaque bytes
--   Reply  1: enqueued; 0: the row exists, nothing changes
--   Error  EMQKIND: the id is not of a job

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
