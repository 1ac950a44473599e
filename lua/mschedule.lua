-- EVALSHA sha 1 base at|in id ms payload [id ms payload ...]
--
--   KEYS   base     emq:{q}:, of which schedule and the rows are made
--   ARGV   at|in    whether ms is a Unix time or counts from now
--          id       starts with JOB
--          ms       when the job is due
--          payload  opaque bytes
--   Reply  for each job 1: scheduled; 0: the row exists
--   Error  EMQKIND: an id is not of a job

for i = 2, #ARGV, 3 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
local schedule, statuses = KEYS[1] .. 'schedule', {}
redis.call('ZCARD', schedule) -- another type has to end the script before it writes
local time = redis.call('TIME')
local from = ({at = 0, ['in'] = time[1] * 1000 + math.floor(time[2] / 1000)})[ARGV[1]]
local due = {}
for i = 3, #ARGV, 3 do
  due[i] = from + ARGV[i] -- so has what is no number
end
for i = 2, #ARGV, 3 do
  local row, status = KEYS[1] .. 'job:' .. ARGV[i], 0
  if redis.call('EXISTS', row) == 0 then
    status = 1
    redis.call('HSET', row, 'state', 'scheduled', 'attempts', '0', 'payload', ARGV[i + 2])
    redis.call('ZADD', schedule, due[i + 1], ARGV[i])
  end
  statuses[#statuses + 1] = status
end
return statuses
