-- Gives an API token a new secret, whose record is `apiToken`. The secret that it has gets a grace period in milliseconds. At
-- most `mostGraced` secrets are in theirs, and none lasts longer than before. `maker` as in `create-api-token`.
-- Answers `maker-revoked`; `no-api-token`; `unreadable`; `outlives` if it expires later than `notBeyond`; or `done` and its
-- secrets.
-- include: api-tokens
if maker ~= '' and #membersOf(maker) == 0 then return {'maker-revoked', nowText} end
local members, secrets, current = membersOf(id), secretsOf(id)
if not current then return {'no-api-token', nowText} end
local record = current.record
if not isWhole(record) then return {'unreadable', nowText} end
local expireTime = tonumber(record.expire_time) or math.huge
if notBeyond ~= '' and expireTime > tonumber(notBeyond) then return {'outlives', nowText} end
for _, secret in ipairs(secrets) do
  secret.expires = secret == current and math.huge or tonumber(secret.record.expire_time) or 0
end
table.sort(secrets, function(one, other) return one.expires > other.expires end)
current.expires = expireTime
audit(subjectOf(id, record.role, record.display_name), 'token')
local stays = {}
for i, secret in ipairs(secrets) do
  if graceMs ~= '0' and i <= tonumber(mostGraced) then
    local expires = string.format('%.0f', math.min(secret.expires, now + graceMs))
    redis.call('HSET', secret.key, 'is_replaced', '1', 'expire_time', expires)
    redis.call('PEXPIREAT', secret.key, expires)
    publish(channel, secret.member)
    stays[secret.member] = true
  end
end
for _, member in ipairs(members) do
  if not stays[member] then remove(channel, member) end
end
record.rotator, record.last_use_time, record.is_replaced = rotator, nil, nil
addSecret(apiToken, record)
return append({'done', nowText}, membersOf(id))
