-- Removes a member of a sorted set. Answers `done`.
redis.call('ZREM', key, member)
return {'done', nowText}
