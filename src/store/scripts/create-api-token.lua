-- Creates an API token, unless its `issuer` is revoked. `issuer` is the id of the API token that creates it, or empty.
-- Returns `issuer-revoked`; `too-many-api-tokens` if the environment has `maxTokens`; or `done` and the secret.
-- include: api-tokens
if issuer ~= '' and #membersOf(issuer) == 0 then return {'issuer-revoked', nowText} end
local expired = {}
if redis.call('ZCARD', apiTokens) >= tonumber(maxTokens) then
  local count, last = 0, ''
  for _, member in ipairs(redis.call('ZRANGEBYLEX', apiTokens, '-', '+')) do
    local of = string.match(member, '^[^ ]*')
    if redis.call('EXISTS', keyOf(member)) == 0 then
      expired[#expired + 1] = member
    elseif of ~= last then
      count, last = count + 1, of
    end
  end
  if count >= tonumber(maxTokens) then return {'too-many-api-tokens', nowText} end
end
audit(subjectOf(id, tokenRole, displayName), '')
for _, member in ipairs(expired) do redis.call('ZREM', apiTokens, member) end
addSecret(apiToken, {
  id = id, role = tokenRole, display_name = displayName, creator = creator, create_time = nowText,
  expire_time = expireTime ~= '' and expireTime or nil
})
return append({'done', nowText}, membersOf(id))
