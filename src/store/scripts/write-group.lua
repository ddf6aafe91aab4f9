-- Creates or changes a group. If the group is new, `expectedVersion` must be empty. Otherwise, `expectedVersion` must
-- be the version of the group's last change. If `digest` is empty, the token does not change. The extra arguments are
-- fields and values to set. If `unlessExpired` is set, the group must not have expired.
-- Returns one of
-- - `changed`: the group has another version, or has expired. If `expectedVersion` is empty, the record of the existing
--   group follows
-- - `unreadable`, `EnvironmentFull`
-- - `TokenTaken`: another group has the token
-- - `done`. If the group is new, its version and its team id follow
-- include: tokens
local found = redis.call('HMGET', group, 'd', 'x', 's', 'u', 'c', 'e')
local last = found[4] or found[5] or ''
local hasExpired = unlessExpired ~= '' and (tonumber(found[6] or '') or math.huge) <= now
if last ~= expectedVersion or hasExpired then
  return {'changed', nowText, unpack(expectedVersion == '' and redis.call('HGETALL', group) or {})}
end
if last ~= '' and not found[1] or last == '' and redis.call('EXISTS', group) == 1 then return {'unreadable', nowText} end
if digest ~= '' and isTaken(digest, id) then return {'TokenTaken', nowText} end
if last == '' then
  local used = tonumber(redis.call('HGET', environment, 'groups') or '0')
  if used >= tonumber(teamIds) then return {'EnvironmentFull', nowText} end
  redis.call('ZSCORE', ids, id)
  local teamId = string.format('%.0f', (string.match(prefix, '%d+') + 0.0) * teamIds + used)
  audit('c:' .. id, changedFields)
  redis.call('HSET', environment, 'groups', string.format('%.0f', used + 1))
  redis.call('ZADD', ids, '0', id)
  local bucket, field = entryOf(digest)
  redis.call('HSET', bucket, field, id)
  redis.call('HSET', group, 'c', versionText, 'd', digest, 'g', teamId, unpack(ARGV, extra))
  return {'done', nowText, versionText, teamId}
end
local obsolete = digest == '' and {} or obsoleteEntries(id, found, digest, graceMs)
audit('g:' .. id, changedFields)
removeEntries(obsolete)
if digest ~= '' then replaceToken(group, id, found, digest, graceMs) end
redis.call('HSET', group, 'u', versionText, unpack(ARGV, extra))
for field in string.gmatch(removed, '%a') do redis.call('HDEL', group, field) end
return {'done', nowText}
