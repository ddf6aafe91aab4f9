-- Stores the time of Redis' clock, unless the stored time is later. If Redis has no identity, writes nothing, so that a
-- late call creates no key in an emptied Redis.
-- Returns the stored time, or 0 if Redis has no identity.
if redis.call('EXISTS', format) == 0 then return {'0'} end
local found = redis.call('GET', time) or '0'
if tonumber(found) < now then
  found = nowText
  redis.call('SET', time, found)
end
return {found}
