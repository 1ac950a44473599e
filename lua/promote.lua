-- EVALSHA sha 2 schedule pending base limit
--
--   KEYS   schedule  emq:{q}:schedule
--          pending   emq:{q}:pending
--   ARGV   base      emq:{q}:, of which the rows, active and dead are made
--          limit     entries to move or drop, at most
--   Reply  how many jobs were due and are pending now
--
-- An entry is dropped if no job is behind it, or if the job stands in the other set that its state names. A lane's job
-- (group) stays for the lane scripts: the look goes on past it, at 10000 entries in all.

local base, limit = ARGV[1], tonumber(ARGV[2])
local others = {pending = KEYS[2], active = base .. 'active', dead = base .. 'dead'}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZCARD', KEYS[2]) -- another type has to end the script before it writes

local moved, taken, stayed = 0, 0, 0
repeat
  local due = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', stayed, math.max(limit, 100))
  for _, id in ipairs(due) do
    if taken == limit or taken + stayed == 10000 then
      return moved
    end
    local row = base .. 'job:' .. id
    local job = string.sub(id, 1, 3) == 'JOB' and redis.call('TYPE', row).ok == 'hash'
    local state, group
    if job then
      state, group = unpack(redis.call('HMGET', row, 'state', 'group'))
    end
    if others[state] and type(redis.pcall('ZSCORE', others[state], id)) == 'string' then
      job = false
    end
    if job and group then
      stayed = stayed + 1
    else
      taken = taken + 1
      redis.call('ZREM', KEYS[1], id)
      if job then
        moved = moved + 1
        redis.call('HSET', row, 'state', 'pending')
        redis.call('ZADD', KEYS[2], 0, id)
      end
    end
  end
until #due == 0
return moved
