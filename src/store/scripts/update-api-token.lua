-- Changes values of an API token, also for its secrets in their grace period, which does not get longer by it. `expires` is when
-- it expires, empty: never, `same`: as before. Behind the arguments come fields and values to set. Nothing is written if
-- `changedFields` is empty. Answers `missing` or `done`.
-- include: api-tokens
local members = {}
for _, member in ipairs(membersOf(id)) do
  if redis.call('EXISTS', keyOf(member)) == 1 then members[#members + 1] = member end
end
if #members == 0 then return {'missing', nowText} end
audit('t:' .. subject, changedFields)
for _, member in ipairs(members) do
  local key = keyOf(member)
  if extra <= #ARGV then redis.call('HSET', key, unpack(ARGV, extra)) end
  local last = tonumber(redis.call('HGET', key, 'expire_time') or '')
  local isLater = last and (expires == '' or expires ~= 'same' and tonumber(expires) > last)
  if expires ~= 'same' and not (isLater and redis.call('HEXISTS', key, 'is_replaced') == 1) then
    if expires == '' then
      redis.call('HDEL', key, 'expire_time')
      redis.call('PERSIST', key)
    else
      redis.call('HSET', key, 'expire_time', expires)
      redis.call('PEXPIREAT', key, expires)
    end
  end
  publish(member)
end
return {'done', nowText}
