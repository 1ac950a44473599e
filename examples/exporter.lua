-- Hands the numbers of INFO emq, and those of EMQ.STATS of up to a hundred queues, to prometheus-redis-exporter, which knows
-- no module's fields by itself: start it with -script exporter.lua, and each is redis_script_values{key="emq_…"}, or
-- {key="emq:{mail}:pending"}.
local out = {}
local function put(name, value)
  out[#out + 1] = name
  out[#out + 1] = value
end
for _, base in ipairs(redis.call('EMQ.QUEUES', '', 100)) do
  local stats = redis.pcall('EMQ.STATS', base) -- a queue that somebody broke has none
  for i = 1, #stats, 2 do
    if type(stats[i + 1]) == 'number' then
      put(base .. stats[i], tostring(stats[i + 1]))
    end
  end
end
for name, value in redis.call('INFO', 'emq'):gmatch('(emq_[%w_]+):(%d+)\r\n') do
  put(name, value)
end
return out
