-- Records that a process encrypts with a key. Stores the check value if none is stored for the id of the key.
-- Returns `done`, and for each recorded key its id, its check value and the time of its last use.
local known = string.match(redis.call('HGET', key, id) or '', '^%S+')
redis.call('HSET', key, id, (known or check) .. ' ' .. nowText)
return {'done', nowText, unpack(redis.call('HGETALL', key))}
