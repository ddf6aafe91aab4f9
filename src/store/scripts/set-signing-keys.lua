-- Replaces all that the hash `keys` has beside its version by the fields and values behind the arguments, if its version is
-- `was`, which is empty if there is none. An event is written unless `changedFields` is empty.
-- Answers `changed` or `done`, and the hash.
local found = redis.call('HGETALL', signingKeys)
local present = redis.call('HGET', signingKeys, 'version') or ''
if present ~= was then return {'changed', nowText, unpack(found)} end
local stays = {version = true}
for i = extra, #ARGV, 2 do stays[ARGV[i]] = true end
if changedFields ~= '' then audit('', changedFields) end
for i = 1, #found, 2 do
  if not stays[found[i]] then redis.call('HDEL', signingKeys, found[i]) end
end
redis.call('HSET', signingKeys, 'version', string.format('%.0f', (tonumber(present) or 0) + 1.0), unpack(ARGV, extra))
redis.pcall('PUBLISH', channel, message)
return {'done', nowText, unpack(redis.call('HGETALL', signingKeys))}
