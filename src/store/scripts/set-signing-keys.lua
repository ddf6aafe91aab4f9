-- Replaces the signing keys with the extra arguments, if the stored keys have the version `expectedVersion`. If no keys
-- are stored, `expectedVersion` must be empty.
-- Returns `changed` if the stored keys have another version. Otherwise returns `done`. The stored hash follows.
local found = redis.call('HGETALL', signingKeys)
local present = redis.call('HGET', signingKeys, 'version') or ''
if present ~= expectedVersion then return {'changed', nowText, unpack(found)} end
local kept = {version = true}
for i = extra, #ARGV, 2 do kept[ARGV[i]] = true end
audit('', 'signing_keys')
for i = 1, #found, 2 do
  if not kept[found[i]] then redis.call('HDEL', signingKeys, found[i]) end
end
redis.call('HSET', signingKeys, 'version', string.format('%.0f', (tonumber(present) or 0) + 1.0), unpack(ARGV, extra))
publish(message)
return {'done', nowText, unpack(redis.call('HGETALL', signingKeys))}
