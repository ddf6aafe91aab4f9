-- Deletes a part of an environment whose deletion has begun: `count` groups or API tokens. In the end its record remains, as
-- deleted, so that its number is never given again.
-- Answers `gone` and its state; or `done` and how many groups are left, nothing in the end.
local ids, apiTokens = prefix .. 'ids', prefix .. 'api-tokens'
-- include: api-tokens
local found = redis.call('ZRANGEBYLEX', ids, '-', '+', 'LIMIT', '0', count)
for _, id in ipairs(found) do
  local team = redis.pcall('HGET', prefix .. 'group:' .. id, 'g')
  redis.call('UNLINK', prefix .. 'group:' .. id)
  if type(team) == 'string' then redis.call('UNLINK', prefix .. 'sessions:' .. team) end
  redis.call('ZREM', ids, id)
end
if #found > 0 then return {'done', nowText, string.format('%.0f', redis.call('ZCARD', ids))} end
local members = redis.call('ZRANGEBYLEX', apiTokens, '-', '+', 'LIMIT', '0', count)
for _, member in ipairs(members) do
  redis.call('UNLINK', keyOf(member))
  redis.call('ZREM', apiTokens, member)
end
if #members > 0 then return {'done', nowText, '0'} end
audit('', '')
for i = 0, 255 do redis.call('UNLINK', prefix .. 'tokens:' .. string.format('%02x', i)) end
redis.call('HSET', environment, 'state', 'deleted')
return {'done', nowText}
