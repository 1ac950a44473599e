-- EVALSHA sha 2 active row id token base
--
--   KEYS   active  emq:{q}:active
--          row     emq:{q}:job:<id>
--   ARGV   id      starts with JOB
--          token   the attempts that the claim answered
--          base    emq:{q}:, of which pending and metrics:completed are made
--   Reply  1: settled; 0: there is no such job
--   Error  EMQKIND: the id is not of a job; EMQSTALE: the job was claimed again since

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local attempts = redis.call('HGET', KEYS[2], 'attempts')
if not attempts then
  return 0
end
if attempts ~= ARGV[2] then
  return redis.error_reply('EMQSTALE complete token mismatch')
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  redis.call('ZREM', ARGV[3] .. 'pending', ARGV[1])
end
redis.call('DEL', KEYS[2])
redis.call('HINCRBY', ARGV[3] .. 'metrics:completed', 'count', 1)
return 1
