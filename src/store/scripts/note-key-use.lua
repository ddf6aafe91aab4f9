-- Notes that a process encrypts under a key, and its check value unless Redis has one for its id. Answers `done` and the check
-- values of all keys.
redis.call('HLEN', uses)
if redis.call('HEXISTS', key, id) == 0 then redis.call('HSET', key, id, check) end
redis.call('HSET', uses, id, nowText)
return {'done', nowText, unpack(redis.call('HGETALL', key))}
