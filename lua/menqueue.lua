-- EVALSHA sha 1 base id payload [id payload ...]
--
--   KEYS   base     emq:{q}:, of which pending and the rows are made
--   ARGV   id       starts with JOB
--          payload  opaque bytes
--   Reply  for each job 1: enqueued; 0: the row exists
--   Error  EMQKIND: an id is not of a job

for i = 1, #ARGV, 2 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
local pending, statuses = KEYS[1] .. 'pending', {}
redis.call('ZCARD', pending) -- another type has to end the script before it writes
for i = 1, #ARGV, 2 do
  local row, status = KEYS[1] .. 'job:' .. ARGV[i], 0
  if redis.call('EXISTS', row) == 0 then
    status = 1
    redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[i + 1])
    redis.call('ZADD', pending, 0, ARGV[i])
  end
  statuses[#statuses + 1] = status
end
return statuses
