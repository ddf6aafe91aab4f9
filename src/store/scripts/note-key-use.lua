-- Records that a process encrypts with a key. If no check value is stored for the id of the key, also stores the check
-- value `check`.
-- Returns `done`, and for each recorded key its id, its check value and the time of its last use.
local known = string.match(redis.call('HGET', key, id) or '', '^%S+')
redis.call('HSET', key, id, (known or check) .. ' ' .. nowText)
return {'done', nowText, unpack(redis.call('HGETALL', key))}
