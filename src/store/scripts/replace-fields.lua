-- Sets fields of a hash to the extra arguments if `field` still has the value `expected`. The version of a group stays
-- the same, because callers see no changed value. Returns `changed` or `done`.
if redis.call('HGET', key, field) ~= expected then return {'changed', nowText} end
redis.call('HSET', key, unpack(ARGV, extra))
return {'done', nowText}
