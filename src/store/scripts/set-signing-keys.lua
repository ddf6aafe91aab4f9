-- If the stored signing keys have the version `expectedVersion`, replaces them with the keys in the extra arguments. If
-- no keys are stored, `expectedVersion` must be empty.
-- Returns `changed` if the stored keys have another version. Otherwise returns `done`. In both cases, the stored hash
-- follows.
local present = redis.call('HGET', signingKeys, 'version') or ''
if present ~= expectedVersion then return {'changed', nowText, unpack(redis.call('HGETALL', signingKeys))} end
audit('', 'signing_keys')
redis.call('UNLINK', signingKeys)
redis.call('HSET', signingKeys, 'version', string.format('%.0f', (tonumber(present) or 0) + 1.0), unpack(ARGV, extra))
publish(message)
return {'done', nowText, unpack(redis.call('HGETALL', signingKeys))}
