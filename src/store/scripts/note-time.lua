-- Stores Redis' clock if no later time is stored. If Redis has no identity, writes nothing, because a late write into
-- an emptied Redis would look like data.
-- Returns the stored time, or 0 if Redis has no identity.
if redis.call('EXISTS', format) == 0 then return {'0'} end
local found = redis.call('GET', time) or '0'
if tonumber(found) < now then
  found = nowText
  redis.call('SET', time, found)
end
return {found}
