-- Stores Redis' clock, unless a later time is stored. Returns the stored time.
local found = redis.call('GET', key) or '0'
if tonumber(found) < now then
  found = nowText
  redis.call('SET', key, found)
end
return {found}
