-- Reads every key of the databases 0 … ARGV[1]-1: a list of [database, key, type, [value…]].
local all = {}
for db = 0, ARGV[1] - 1 do
  redis.call('SELECT', db)
  for _, key in ipairs(redis.call('KEYS', '*')) do
    local kind, value = redis.call('TYPE', key).ok, nil
    if kind == 'string' then
      value = {redis.call('GET', key)}
    elseif kind == 'hash' then
      value = redis.call('HGETALL', key)
    elseif kind == 'zset' then
      value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    else
      value = {redis.call('DUMP', key)}
    end
    all[#all + 1] = {db, key, kind, value}
  end
end
return all
