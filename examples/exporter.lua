-- Hands the numbers of INFO emq to prometheus-redis-exporter, which knows no module's fields by itself: start it with
-- -script exporter.lua, and each is redis_script_values{key="emq_…"}.
local out = {}
for name, value in redis.call('INFO', 'emq'):gmatch('(emq_[%w_]+):(%d+)\r\n') do
  out[#out + 1] = name
  out[#out + 1] = value
end
return out
