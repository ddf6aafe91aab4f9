-- Forgets a key that no process has encrypted under since a time. Answers `used` and when it was last, or `done`.
local used = redis.call('HGET', uses, id)
if used and tonumber(used) >= tonumber(since) then return {'used', nowText, used} end
redis.call('HDEL', key, id)
redis.call('HDEL', uses, id)
return {'done', nowText}
