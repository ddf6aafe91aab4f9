-- Changes an API token, also its secrets in their grace period, which does not get longer by it. `displayName` is empty, and
-- `expires` is `same`, if it stays; an empty `expires` means that the API token does not expire.
-- Answers `no-api-token`; `unreadable`; `same` or `done`, and its secrets.
-- include: api-tokens
local secrets, current = secretsOf(id)
if not current then return {'no-api-token', nowText} end
local record, changed = current.record, {}
if not isWhole(record) then return {'unreadable', nowText} end
if displayName ~= '' and displayName ~= record.display_name then changed[1] = 'display_name' end
if expires ~= 'same' and expires ~= (record.expire_time or '') then changed[#changed + 1] = 'expire_time' end
if #changed == 0 then return append({'same', nowText}, membersOf(id)) end
audit(subjectOf(id, record.role, record.display_name), table.concat(changed, ','))
for _, secret in ipairs(secrets) do
  if displayName ~= '' then redis.call('HSET', secret.key, 'display_name', displayName) end
  local isLater = expires == '' or (tonumber(expires) or 0) > (tonumber(secret.record.expire_time) or math.huge)
  if expires ~= 'same' and not (secret.record.is_replaced and isLater) then
    if expires == '' then
      redis.call('HDEL', secret.key, 'expire_time')
      redis.call('PERSIST', secret.key)
    else
      redis.call('HSET', secret.key, 'expire_time', expires)
      redis.call('PEXPIREAT', secret.key, expires)
    end
  end
  publish(channel, secret.member)
end
return append({'done', nowText}, membersOf(id))
