-- Changes an API token with all its secrets. No grace period becomes longer. An empty `displayName` keeps the name, and the
-- `expireTime` `same` keeps the expiry. An empty `expireTime` means that the API token does not expire.
-- Returns `no-api-token`; `unreadable`; or `same` or `done`, and the secrets.
-- include: api-tokens
local secrets, current = secretsOf(id)
if not current then return {'no-api-token', nowText} end
local record, changed = current.record, {}
if not isComplete(record) then return {'unreadable', nowText} end
if displayName ~= '' and displayName ~= record.display_name then changed[1] = 'display_name' end
if expireTime ~= 'same' and expireTime ~= (record.expire_time or '') then changed[#changed + 1] = 'expire_time' end
if #changed == 0 then return append({'same', nowText}, membersOf(id)) end
audit(subjectOf(id, record.role, record.display_name), table.concat(changed, ','))
for _, secret in ipairs(secrets) do
  if displayName ~= '' then redis.call('HSET', secret.key, 'display_name', displayName) end
  local isLater = expireTime == '' or (tonumber(expireTime) or 0) > (tonumber(secret.record.expire_time) or math.huge)
  if expireTime ~= 'same' and not (secret.record.is_replaced and isLater) then
    if expireTime == '' then
      redis.call('HDEL', secret.key, 'expire_time')
      redis.call('PERSIST', secret.key)
    else
      redis.call('HSET', secret.key, 'expire_time', expireTime)
      redis.call('PEXPIREAT', secret.key, expireTime)
    end
  end
  publish(channel, secret.member)
end
return append({'done', nowText}, membersOf(id))
