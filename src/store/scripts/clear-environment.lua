-- Deletes a part of an environment that is being deleted: up to `count` groups. If no groups exist, deletes all API
-- tokens. If neither groups nor API tokens exist, deletes the webhooks and the index of tokens, and sets the state to
-- `deleted`. The audit trail stays. The record of the environment also stays, so that no other environment gets its
-- number.
-- Returns `done` and the number of remaining groups. If the state is `deleted`, returns only `done`.
local ids, apiTokens = prefix .. 'ids', prefix .. 'api-tokens'
local found = redis.call('ZRANGEBYLEX', ids, '-', '+', 'LIMIT', '0', count)
for _, id in ipairs(found) do
  local team = redis.pcall('HGET', prefix .. 'group:' .. id, 'g')
  redis.call('UNLINK', prefix .. 'group:' .. id)
  if type(team) == 'string' then redis.call('UNLINK', prefix .. 'sessions:' .. team) end
  redis.call('ZREM', ids, id)
end
if #found > 0 then return {'done', nowText, string.format('%.0f', redis.call('ZCARD', ids))} end
if redis.call('HLEN', apiTokens) > 0 then
  local entries = redis.call('HGETALL', apiTokens)
  for i = 2, #entries, 2 do redis.call('UNLINK', prefix .. 'api-token:' .. entries[i]) end
  redis.call('UNLINK', apiTokens)
  return {'done', nowText, '0'}
end
local webhooks = redis.call('ZRANGEBYLEX', prefix .. 'webhooks', '-', '+')
audit('', '')
for _, id in ipairs(webhooks) do redis.call('UNLINK', prefix .. 'webhook:' .. id, prefix .. 'deliveries:' .. id) end
redis.call('UNLINK', prefix .. 'webhooks', prefix .. 'webhook-times')
for i = 0, 255 do redis.call('UNLINK', prefix .. 'tokens:' .. string.format('%02x', i)) end
redis.call('HSET', environment, 'state', 'deleted')
return {'done', nowText}
