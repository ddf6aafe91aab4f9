-- Suspends a group, or changes the suspension of a suspended group. A suspended group keeps the time of its suspension.
-- If `untilTime` is empty, only `resume-group` ends the suspension.
-- Returns `UserGroupNotFound` or `unreadable`. Returns `same` and the record if the suspension did not change.
-- Otherwise returns `done` and the record.
local found = redis.call('HMGET', group, 'd', 'c', 'z', 'w', 'h', 'v')
if not found[1] or not found[2] then
  return {redis.call('EXISTS', group) == 1 and 'unreadable' or 'UserGroupNotFound', nowText}
end
local isSuspended = found[3] and (tonumber(found[6] or '') or math.huge) > now
local isSame = isSuspended and found[4] == reason and found[5] == message and (found[6] or '') == untilTime
if not isSame then
  audit('g:' .. id, 'suspension')
  redis.call('HSET', group, 'u', versionText, 'z', isSuspended and found[3] or nowText, 'w', reason, 'h', message)
  if untilTime == '' then redis.call('HDEL', group, 'v') else redis.call('HSET', group, 'v', untilTime) end
end
return {isSame and 'same' or 'done', nowText, unpack(redis.call('HGETALL', group))}
