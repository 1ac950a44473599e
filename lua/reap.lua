-- EVALSHA sha 3 active pending dead base max_stalled limit run_id
--
--   KEYS   active       emq:{q}:active
--          pending      emq:{q}:pending
--          dead         emq:{q}:dead
--   ARGV   base         emq:{q}:, of which the rows, schedule and metrics:failed are made
--          max_stalled  lost leases at which a job is dead; 0: never
--          limit        entries to move or drop, at most
--          run_id       the server's
--   Reply  [[ids], [ids]]: the jobs whose lease ran out, those that are pending again and those that are dead
--
-- The loss of a lease that another server granted is not counted. A flow's job (parent) does not die here: its parent
-- has to hear of that. An entry is dropped if no job is behind it, or if the job stands in the other set that its state
-- names. A lane's job (group) stays for the lane scripts: the look goes on past it, at 10000 entries in all.

local base, limit = ARGV[1], tonumber(ARGV[3])
local others = {pending = KEYS[2], scheduled = base .. 'schedule', dead = KEYS[3]}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZCARD', KEYS[2]) -- another type has to end the script before it writes

local cap, kind = ARGV[2] + 0, redis.call('TYPE', KEYS[3]).ok -- no number has to end it, too
if cap == 0 or kind ~= 'none' and kind ~= 'zset' then
  cap = math.huge -- no job may be lost to a dead that cannot take it
end

-- counted is a counter's next value; one that is no canonical integer, or cannot be counted up, counts as 0.
local function counted(text)
  local n = text and string.match(text, '^[1-9]%d*$') and tonumber(text) or 0
  return n <= 9007199254740990 and n + 1 or 1
end

local recovered, dead, taken, stayed = {}, {}, 0, 0
repeat
  local expired = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', stayed, math.max(limit, 100))
  for _, id in ipairs(expired) do
    if taken == limit or taken + stayed == 10000 then
      return {recovered, dead}
    end
    local row = base .. 'job:' .. id
    local job = string.sub(id, 1, 3) == 'JOB' and redis.call('TYPE', row).ok == 'hash'
    local state, group, parent, epoch, stalled
    if job then
      state, group, parent, epoch, stalled =
        unpack(redis.call('HMGET', row, 'state', 'group', 'parent', 'lease_epoch', 'stalled'))
    end
    if others[state] and type(redis.pcall('ZSCORE', others[state], id)) == 'string' then
      job = false
    end
    if job and group then
      stayed = stayed + 1
    else
      taken = taken + 1
      redis.call('ZREM', KEYS[1], id)
    end
    if job and not group then
      stalled = counted(stalled)
      if epoch and epoch ~= ARGV[4] then
        recovered[#recovered + 1] = id
        redis.call('HSET', row, 'state', 'pending')
        redis.call('ZADD', KEYS[2], 0, id)
      elseif stalled < cap or parent then
        recovered[#recovered + 1] = id
        redis.call('HSET', row, 'state', 'pending', 'stalled', stalled)
        redis.call('ZADD', KEYS[2], 0, id)
      else
        dead[#dead + 1] = id
        redis.call('HSET', row, 'state', 'dead', 'stalled', stalled, 'last_error', 'stalled')
        redis.call('ZADD', KEYS[3], 0, id)
        redis.pcall('HINCRBY', base .. 'metrics:failed', 'count', 1) -- left alone if it cannot be incremented
      end
    end
  end
until #expired == 0
return {recovered, dead}
