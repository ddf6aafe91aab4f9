-- Sets the fields of a token (the extra arguments), if the group still has this token under the key `expectedKeyId`.
-- The version of the group stays: callers see no change. Returns `changed` or `done`.
local found = redis.call('HMGET', group, 'd', 'k')
if found[1] ~= digest or found[2] ~= expectedKeyId then return {'changed', nowText} end
redis.call('HSET', group, unpack(ARGV, extra))
return {'done', nowText}
