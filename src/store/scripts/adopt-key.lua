-- Sets a field of a hash unless it is there. Answers `done` or `found`, and the hash.
local outcome = redis.call('HEXISTS', key, field) == 1 and 'found' or 'done'
if outcome == 'done' then redis.call('HSET', key, field, value) end
return {outcome, nowText, unpack(redis.call('HGETALL', key))}
