-- Changes a group. The extra arguments are fields and values to set. Deletes the fields whose letters are in `removed`.
-- If `etag` is not empty, the group must have this etag. `keyIds` must contain the key of the group's token, because
-- the caller decrypts the token in the answer.
-- Returns one of
-- - `UserGroupNotFound`, `unreadable`, `EtagMismatch`
-- - `locked` and the id of the missing key
-- - `same` if nothing changed, or `done`. The number of removed events and the record follow
local found = redis.call('HMGET', group, 'd', 'k', 'g', 'u', 'c')
if not found[1] or not found[5] then
  return {redis.call('EXISTS', group) == 1 and 'unreadable' or 'UserGroupNotFound', nowText}
end
if etag ~= '' and etag ~= (found[3] or '') .. '-' .. (found[4] or found[5]) then return {'EtagMismatch', nowText} end
if not string.find(keyIds, ',' .. (found[2] or '') .. ',', 1, true) then return {'locked', nowText, found[2] or ''} end
local function isSame()
  for i = extra, #ARGV, 2 do
    if redis.call('HGET', group, ARGV[i]) ~= ARGV[i + 1] then return false end
  end
  for field in string.gmatch(removed, '%a') do
    if redis.call('HEXISTS', group, field) == 1 then return false end
  end
  return true
end
if isSame() then return {'same', nowText, '0', unpack(redis.call('HGETALL', group))} end
local dropped = audit('g:' .. id, changedFields)
redis.call('HSET', group, 'u', versionText, unpack(ARGV, extra))
for field in string.gmatch(removed, '%a') do redis.call('HDEL', group, field) end
return {'done', nowText, string.format('%.0f', dropped), unpack(redis.call('HGETALL', group))}
