-- Notes that a process encrypts under a key, whose check value stands in Redis from then on. Answers `done`.
redis.call('HLEN', uses)
if redis.call('HEXISTS', key, id) == 0 then redis.call('HSET', key, id, check) end
redis.call('HSET', uses, id, nowText)
return {'done', nowText}
