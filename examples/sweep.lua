#!lua flags=allow-oom
-- Moves what waits back to pending: retries that are due, and jobs whose lease ran out.
--
--   valkey-cli --eval examples/sweep.lua emq:{q}:schedule emq:{q}:active emq:{q}:pending , emq:{q}: 1000
--
-- KEYS   schedule, active and pending of one queue
-- ARGV   the queue's base; how many entries of each set to look at, at most
-- Reply  how many retries and how many lost leases were moved
--
-- Run it every second or so until the server does this by itself. It keeps the contract of docs/protocol.md: a job that
-- comes back keeps `attempts` and `lease_epoch`, so the holder of a lost lease may settle it until another claims it.
-- It counts no lost leases: a job that kills its workers comes back for ever. An entry without a row is dropped; a row
-- of a lane (`group`), and one that is not in the state of its set, is left where it stands.
local version = redis.pcall('GET', '{emq}:version')
if not version then return {0, 0} end
if version ~= 'echomq:6.0.0' then
  return redis.error_reply('EMQFENCE {emq}:version is not "echomq:6.0.0"')
end

local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))

local function move(set, state)
  local moved = 0
  for _, id in ipairs(redis.call('ZRANGE', set, '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[2])) do
    local row = ARGV[1] .. 'job:' .. id
    local field = redis.pcall('HMGET', row, 'state', 'group')
    if redis.call('EXISTS', row) == 0 then
      redis.call('ZREM', set, id)
    elseif field[1] == state and not field[2] then
      redis.call('ZADD', KEYS[3], 0, id)
      redis.call('HSET', row, 'state', 'pending')
      redis.call('ZREM', set, id)
      moved = moved + 1
    end
  end
  return moved
end

return {move(KEYS[1], 'scheduled'), move(KEYS[2], 'active')}
