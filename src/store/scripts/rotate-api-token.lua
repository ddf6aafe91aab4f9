-- Gives an API token a new secret with the key `apiToken`. The current secret gets a grace period of `graceMs`. At most
-- `maxReplaced` secrets are in their grace period, and none expires later than before. `issuer` as in create-api-token.
-- Returns `issuer-revoked`; `no-api-token`; `unreadable`; `outlives` if it expires later than `notBeyond`; or `done` and the
-- secrets.
-- include: api-tokens
if issuer ~= '' and #membersOf(issuer) == 0 then return {'issuer-revoked', nowText} end
local members, secrets, current = membersOf(id), secretsOf(id)
if not current then return {'no-api-token', nowText} end
local record = current.record
if not isComplete(record) then return {'unreadable', nowText} end
local expireTime = tonumber(record.expire_time) or math.huge
if notBeyond ~= '' and expireTime > tonumber(notBeyond) then return {'outlives', nowText} end
for _, secret in ipairs(secrets) do
  secret.expires = secret == current and math.huge or tonumber(secret.record.expire_time) or 0
end
table.sort(secrets, function(one, other) return one.expires > other.expires end)
current.expires = expireTime
audit(subjectOf(id, record.role, record.display_name), 'token')
local kept = {}
for i, secret in ipairs(secrets) do
  if graceMs ~= '0' and i <= tonumber(maxReplaced) then
    local expires = string.format('%.0f', math.min(secret.expires, now + graceMs))
    redis.call('HSET', secret.key, 'is_replaced', '1', 'expire_time', expires)
    redis.call('PEXPIREAT', secret.key, expires)
    publish(channel, secret.member)
    kept[secret.member] = true
  end
end
local revoked = {}
for _, member in ipairs(members) do
  if not kept[member] then
    revokeSecret(channel, member)
    revoked[#revoked + 1] = member
  end
end
record.rotator, record.last_use_time, record.is_replaced = rotator, nil, nil
addSecret(apiToken, record)
-- The caller forgets the revoked secrets, too. They have no record any more.
return append(append({'done', nowText}, membersOf(id)), revoked)
