-- Records that a process encrypts under a key, and the check value of the key unless its id has one.
-- Returns `done` and the check values of all keys, each with the time of the last use.
local known = string.match(redis.call('HGET', key, id) or '', '^%S+')
redis.call('HSET', key, id, (known or check) .. ' ' .. nowText)
return {'done', nowText, unpack(redis.call('HGETALL', key))}
