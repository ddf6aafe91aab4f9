-- If a process used a key at the time `since` or later, keeps the key. Otherwise removes the key from the recorded
-- keys.
-- Returns `used` and the time of the last use; or `done`.
local used = string.match(redis.call('HGET', key, id) or '', ' (%d+)$')
if used and tonumber(used) >= tonumber(since) then return {'used', nowText, used} end
redis.call('HDEL', key, id)
return {'done', nowText}
