-- Adds a member to a sorted set whose scores are all 0. Answers `found` if it is there already, or `done`.
if redis.call('ZSCORE', key, member) then return {'found', nowText} end
redis.call('ZADD', key, '0', member)
return {'done', nowText}
