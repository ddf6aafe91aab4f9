-- Deletes a group, found as in `rotate-token`, and whatever leads to it. If `etag` is not empty, it must have it.
-- The keys of request ids expire later. They hold the team id, which is never used again.
-- Answers `no-group`; `no-token`; `stale`; or `done`.
-- include: tokens
-- include: target
local found = redis.call('HMGET', group, 'd', 'x', 'g', 'u', 'c')
if redis.call('EXISTS', group) == 0 or old ~= '' and found[1] ~= old then return missing end
if etag ~= '' and etag ~= (found[3] or '') .. '-' .. (found[4] or found[5] or '') then return {'stale', nowText} end
local ending = entriesOf(id, found[1], found[2])
redis.call('ZSCORE', ids, id)
audit('g:' .. id, '')
removeEntries(ending)
redis.call('UNLINK', group, prefix .. 'sessions:' .. (found[3] or ''))
redis.call('ZREM', ids, id)
return {'done', nowText}
