-- Creates an API token of the fields and values behind the arguments. `maker` is the API token that creates it, which must not
-- be revoked; empty: it is none of this environment. `mostTokens` is how many there may be.
-- Answers `changed` if its maker is revoked; `full`; or `done`.
-- include: api-tokens
if maker ~= '' and #membersOf(maker) == 0 then return {'changed', nowText} end
local gone = {}
if redis.call('ZCARD', apiTokens) >= tonumber(mostTokens) then
  local count, last = 0, ''
  for _, member in ipairs(redis.call('ZRANGEBYLEX', apiTokens, '-', '+')) do
    local id = string.match(member, '^[^ ]*')
    if redis.call('EXISTS', keyOf(member)) == 0 then
      gone[#gone + 1] = member
    elseif id ~= last then
      count, last = count + 1, id
    end
  end
  if count >= tonumber(mostTokens) then return {'full', nowText} end
end
audit('t:' .. subject, '')
for _, member in ipairs(gone) do redis.call('ZREM', apiTokens, member) end
redis.call('HSET', apiToken, 'create_time', nowText, 'token_create_time', nowText, unpack(ARGV, extra))
if expireTime ~= '' then redis.call('PEXPIREAT', apiToken, expireTime) end
redis.call('ZADD', apiTokens, '0', member)
return {'done', nowText}
