-- Records the use of an API token if the last recorded use is at least `intervalMs` ago. Returns `missing` or `noted`.
local found = redis.call('HMGET', apiToken, 'role', 'last_use_time')
if not found[1] then return {'missing', nowText} end
if now - (tonumber(found[2] or '0') or 0) >= tonumber(intervalMs) then
  redis.call('HSET', apiToken, 'last_use_time', nowText)
end
return {'noted', nowText}
