-- EVALSHA sha 2 pending active rowprefix lease_ms
--
--   KEYS   pending    emq:{q}:pending
--          active     emq:{q}:active
--   ARGV   rowprefix  emq:{q}:job:
--          lease_ms   how long the job is the caller's
--   Reply  [id, payload, attempts], or an empty array if nothing is pending; attempts is the token that the caller
--          must present to settle the job

local id = redis.call('ZPOPMIN', KEYS[1])[1]
if not id then
  return {}
end
local row = ARGV[1] .. id
local attempts = redis.call('HINCRBY', row, 'attempts', 1)
redis.call('HSET', row, 'state', 'active')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[2], now + ARGV[2], id)
return {id, redis.call('HGET', row, 'payload'), attempts}
