-- Changes a group that has this etag, or any where it is empty. Behind the arguments come fields and values to set; `removed`
-- are letters of fields that it must not have. The caller decrypts the token of the answer, so `heldKeys` must have its key.
-- Answers `no-group`; `unreadable`; `stale`; `locked` and the id of the token's key if `heldKeys` lacks it; `same` and the
-- record if it has these values already; or `done` and the record, behind how many older events were removed.
local found = redis.call('HMGET', group, 'd', 'k', 'g', 'u', 'c')
if not found[1] or not found[5] then
  return {redis.call('EXISTS', group) == 1 and 'unreadable' or 'no-group', nowText}
end
if etag ~= '' and etag ~= (found[3] or '') .. '-' .. (found[4] or found[5]) then return {'stale', nowText} end
if not string.find(heldKeys, ',' .. (found[2] or '') .. ',', 1, true) then return {'locked', nowText, found[2] or ''} end
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
