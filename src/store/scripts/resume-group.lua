-- Ends the suspension of a group.
-- Returns `UserGroupNotFound`; `unreadable`; or `UserGroupExpired` if the group has expired. Returns `same` and the
-- record if the group was not suspended. Otherwise returns `done` and the record.
local found = redis.call('HMGET', group, 'd', 'c', 'z', 'e')
if not found[1] or not found[2] then
  return {redis.call('EXISTS', group) == 1 and 'unreadable' or 'UserGroupNotFound', nowText}
end
if (tonumber(found[4] or '') or math.huge) <= now then return {'UserGroupExpired', nowText} end
if found[3] then
  audit('g:' .. id, 'suspension')
  redis.call('HSET', group, 'u', versionText)
  redis.call('HDEL', group, 'z', 'w', 'h', 'v')
end
return {found[3] and 'done' or 'same', nowText, unpack(redis.call('HGETALL', group))}
