-- If `field` still has the value `expected`, sets fields of the hash. The extra arguments are these fields and their
-- values. The version of a group does not change, because callers cannot see the changed values.
-- Returns `changed` if `field` has another value. Otherwise returns `done`.
if redis.call('HGET', key, field) ~= expected then return {'changed', nowText} end
redis.call('HSET', key, unpack(ARGV, extra))
return {'done', nowText}
