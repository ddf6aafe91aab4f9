-- Records that a process encrypts under a key, and the check value of the key unless its id has one.
-- Returns `done` and the check values of all keys.
redis.call('HLEN', uses)
if redis.call('HEXISTS', key, id) == 0 then redis.call('HSET', key, id, check) end
redis.call('HSET', uses, id, nowText)
return {'done', nowText, unpack(redis.call('HGETALL', key))}
