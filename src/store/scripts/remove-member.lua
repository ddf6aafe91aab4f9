-- Removes a member of a sorted set. Returns `done`.
redis.call('ZREM', key, member)
return {'done', nowText}
