-- Creates an API token. `maker` is the API token that creates it, which must not be revoked; empty: it is none of this
-- environment. `mostTokens` is how many there may be.
-- Answers `maker-revoked`; `too-many-api-tokens`; or `done` and its secret.
-- include: api-tokens
if maker ~= '' and #membersOf(maker) == 0 then return {'maker-revoked', nowText} end
local expired = {}
if redis.call('ZCARD', apiTokens) >= tonumber(mostTokens) then
  local count, last = 0, ''
  for _, member in ipairs(redis.call('ZRANGEBYLEX', apiTokens, '-', '+')) do
    local of = string.match(member, '^[^ ]*')
    if redis.call('EXISTS', keyOf(member)) == 0 then
      expired[#expired + 1] = member
    elseif of ~= last then
      count, last = count + 1, of
    end
  end
  if count >= tonumber(mostTokens) then return {'too-many-api-tokens', nowText} end
end
audit(subjectOf(id, tokenRole, displayName), '')
for _, member in ipairs(expired) do redis.call('ZREM', apiTokens, member) end
addSecret(apiToken, {
  id = id, role = tokenRole, display_name = displayName, creator = creator, create_time = nowText,
  expire_time = expireTime ~= '' and expireTime or nil
})
return append({'done', nowText}, membersOf(id))
