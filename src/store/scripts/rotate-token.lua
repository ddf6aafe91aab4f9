-- Replaces the token of a group. If the call has a request id, the key `request` stores the result and the digest of
-- the parameters.
-- Returns one of
-- - `UserGroupNotFound`, `TokenNotFound`, `unreadable`
-- - `RequestIdReused`: the request id was used with other parameters
-- - `done`, the digest of the new token, and the id and the record of the group. If the call is a retry, the digest is
--   the digest of the token that the first call created
-- include: tokens
local first = redis.call('HMGET', request, 'parameters', 'id', 'team', 'digest')
if first[2] then
  local key = prefix .. 'group:' .. first[2]
  -- If the group was deleted and created again, it has another team id, so the request id counts as new.
  if first[3] and redis.call('HGET', key, 'g') == first[3] then
    if first[1] ~= parameters then return {'RequestIdReused', nowText} end
    return {'done', nowText, first[4] or '', first[2], unpack(redis.call('HGETALL', key))}
  end
end
-- include: target
local found = redis.call('HMGET', group, 'd', 'x', 's', 'g', 'c')
if not found[1] or not found[4] or not found[5] then
  return redis.call('EXISTS', group) == 1 and currentDigest == '' and {'unreadable', nowText} or missing
end
if currentDigest ~= '' and found[1] ~= currentDigest then return missing end
local obsolete = obsoleteEntries(id, found, digest, graceMs)
audit('g:' .. id, 'token')
removeEntries(obsolete)
replaceToken(group, id, found, digest, graceMs)
-- Lists show a rotation only if the time of the token is after the creation of the group.
local tokenTime = math.max(math.floor(version / 1000), math.floor((tonumber(found[5]) or 0) / 1000) + 1.0)
redis.call('HSET', group, 't', tokenText, 'k', keyId, 'u', versionText, 'r', string.format('%.0f', tokenTime))
redis.call('HDEL', group, 'f')
if requestDigest ~= '' then
  redis.call('HSET', request, 'parameters', parameters, 'id', id, 'team', found[4], 'digest', digest)
  redis.call('PEXPIRE', request, requestTtlMs)
end
return {'done', nowText, digest, id, unpack(redis.call('HGETALL', group))}
