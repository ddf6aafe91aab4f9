-- Adds a member to a sorted set whose scores are all 0. Returns `done`.
redis.call('ZADD', key, '0', member)
return {'done', nowText}
