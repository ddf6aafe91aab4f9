-- Adds a member to a sorted set with scores of 0. Returns `done`.
redis.call('ZADD', key, '0', member)
return {'done', nowText}
