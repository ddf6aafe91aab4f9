-- Deletes a group, its index entries, and the notes on its revoked sessions. If `etag` is not empty, the group must
-- have this etag. The stored results of rotations stay until they expire. These results contain the team id of the
-- deleted group. A new group with the same id has another team id, so the results do not apply to it.
-- Returns `UserGroupNotFound`; `TokenNotFound`; `EtagMismatch`; or `done`.
-- include: tokens
-- include: target
local found = redis.call('HMGET', group, 'd', 'x', 'g', 'u', 'c')
if redis.call('EXISTS', group) == 0 or currentDigest ~= '' and found[1] ~= currentDigest then return missing end
if etag ~= '' and etag ~= (found[3] or '') .. '-' .. (found[4] or found[5] or '') then return {'EtagMismatch', nowText} end
local obsolete = entriesOf(id, found[1], found[2])
redis.call('ZSCORE', ids, id)
audit('g:' .. id, '')
removeEntries(obsolete)
redis.call('UNLINK', group, prefix .. 'sessions:' .. (found[3] or ''))
redis.call('ZREM', ids, id)
return {'done', nowText}
