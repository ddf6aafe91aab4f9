-- Gives a group a new token, `text`, encrypted under the key `keyId`. `target` is the key of the group with the `id`; without
-- an `id`, the bucket of the token `old`, which the group must have. What a rotation under a request id made is kept under the
-- key `request`, with the digest of the request's parameters.
-- Answers `no-group`; `no-token`; `unreadable`; `reused` if the request id was used with other parameters; or `done`, the digest
-- of the token that this rotation or the first one under the request id made, the id of the group and its record.
-- include: tokens
local first = redis.call('HMGET', request, 'parameters', 'id', 'team', 'digest')
if first[2] then
  local key = prefix .. 'group:' .. first[2]
  -- A group that was created again under the id has another team id: to it, this request is a new one.
  if first[3] and redis.call('HGET', key, 'g') == first[3] then
    if first[1] ~= parameters then return {'reused', nowText} end
    return {'done', nowText, first[4] or '', first[2], unpack(redis.call('HGETALL', key))}
  end
end
-- include: target
local found = redis.call('HMGET', group, 'd', 'x', 's', 'g', 'c')
if not found[1] or not found[4] or not found[5] then
  return redis.call('EXISTS', group) == 1 and old == '' and {'unreadable', nowText} or missing
end
if old ~= '' and found[1] ~= old then return missing end
local ending = endingEntries(id, found, digest, graceMs)
audit('g:' .. id, 'token')
removeEntries(ending)
replaceToken(group, id, found, digest, graceMs)
-- Later than the group, however soon: by this a list shows whether the token was ever replaced.
local tokenTime = math.max(math.floor(version / 1000), math.floor((tonumber(found[5]) or 0) / 1000) + 1.0)
redis.call('HSET', group, 't', text, 'k', keyId, 'u', versionText, 'r', string.format('%.0f', tokenTime))
redis.call('HDEL', group, 'f')
if parameters ~= '' then
  redis.call('HSET', request, 'parameters', parameters, 'id', id, 'team', found[4], 'digest', digest)
  redis.call('PEXPIRE', request, keptRequestMs)
end
return {'done', nowText, digest, id, unpack(redis.call('HGETALL', group))}
