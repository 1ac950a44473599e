-- EVALSHA sha 4 active schedule dead row id token delay_ms max error base
--
--   KEYS   active    emq:{q}:active
--          schedule  emq:{q}:schedule
--          dead      emq:{q}:dead
--          row       emq:{q}:job:<id>
--   ARGV   id        starts with JOB
--          token     the attempts that the claim answered
--          delay_ms  until the job is due again
--          max       attempts after which it is not tried again
--          error     what went wrong, opaque bytes
--          base      emq:{q}:, of which pending and metrics:failed are made
--   Reply  scheduled, or dead at the cap
--   Error  EMQKIND: the id is not of a job; EMQSTALE: there is no such job, or it was claimed again since

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local attempts = redis.call('HGET', KEYS[4], 'attempts')
if not attempts then
  return redis.error_reply('EMQSTALE job gone')
end
if attempts ~= ARGV[2] then
  return redis.error_reply('EMQSTALE retry token mismatch')
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  redis.call('ZREM', ARGV[6] .. 'pending', ARGV[1])
end
if tonumber(attempts) >= tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[4], 'state', 'dead', 'last_error', ARGV[5])
  redis.call('ZADD', KEYS[3], 0, ARGV[1])
  redis.call('HINCRBY', ARGV[6] .. 'metrics:failed', 'count', 1)
  return 'dead'
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[4], 'state', 'scheduled', 'last_error', ARGV[5])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
return 'scheduled'
