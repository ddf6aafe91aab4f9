-- Creates an API token.
-- Returns `ApiTokenChanged` if the caller may not issue API tokens. Returns `TooManyApiTokens` if the environment
-- already has `maxTokens` API tokens. Otherwise returns `done`, the digest and the record.
-- include: api-tokens
if not mayIssue() then return {'ApiTokenChanged', nowText} end
local expired = {}
if redis.call('HLEN', apiTokens) >= tonumber(maxTokens) then
  local entries, exists, count = redis.call('HGETALL', apiTokens), {}, 0
  for i = 1, #entries, 2 do
    local of = entries[i + 1]
    if exists[of] == nil then
      exists[of] = redis.call('EXISTS', keyOf(of)) == 1
      if exists[of] then count = count + 1 end
    end
    if not exists[of] then expired[#expired + 1] = entries[i] end
  end
  if count >= tonumber(maxTokens) then return {'TooManyApiTokens', nowText} end
end
local issuers = issuersOf(id, '')
audit(subjectOf(id, tokenRole, displayName), '')
for _, each in ipairs(expired) do redis.call('HDEL', apiTokens, each) end
redis.call('HSET', apiTokens, digest, id)
redis.call('HSET', apiToken, 'role', tokenRole, 'display_name', displayName, 'creator', actorId, 'create_time', nowText,
  'digest', digest, 'token_create_time', nowText)
if issuers then redis.call('HSET', apiToken, 'issuers', issuers) end
if expireTime ~= '' then setExpiry(apiToken, expireTime) end
return {'done', nowText, digest, unpack(redis.call('HGETALL', apiToken))}
