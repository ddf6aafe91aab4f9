-- Sets the fields behind the arguments, which hold a group's token, if the group still has the token with this digest, under
-- the key `was`. Its version stays, because nothing changes that callers see. Answers `changed` or `done`.
local found = redis.call('HMGET', group, 'd', 'k')
if found[1] ~= digest or found[2] ~= was then return {'changed', nowText} end
redis.call('HSET', group, unpack(ARGV, extra))
return {'done', nowText}
