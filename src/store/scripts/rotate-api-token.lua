-- Gives an API token a new secret, whose record is `apiToken` and which is listed as `member`. `current` is the member of the
-- secret that it has; it gets a grace period in milliseconds. At most `mostGraced` secrets are in theirs, and none lasts longer
-- than before. `maker` as in `create-api-token`.
-- Answers `changed` if another secret is the current one, or the maker is revoked; `missing` if it is revoked; or `done`.
-- include: api-tokens
if maker ~= '' and #membersOf(maker) == 0 then return {'changed', nowText} end
local graced, gone, record = {}, {}, redis.call('HGETALL', keyOf(current))
if #record == 0 then return {#membersOf(id) > 0 and 'changed' or 'missing', nowText} end
local stays = {}
for i = 1, #record, 2 do stays[record[i]] = record[i + 1] end
if stays.is_replaced or (stays.display_name or '') ~= displayName or (stays.expire_time or '') ~= expireTime then
  return {'changed', nowText}
end
for _, each in ipairs(membersOf(id)) do
  local ends = each ~= current and redis.call('HGET', keyOf(each), 'expire_time')
  if ends then graced[#graced + 1] = {each, tonumber(ends) or 0} elseif each ~= current then gone[#gone + 1] = each end
end
table.sort(graced, function(one, other) return one[2] > other[2] end)
audit('t:' .. subject, 'token')
redis.call('HSET', apiToken, 'id', id, 'create_time', stays.create_time or nowText, 'token_create_time', nowText,
  'rotator', rotator, unpack(ARGV, extra))
if expireTime ~= '' then redis.call('PEXPIREAT', apiToken, expireTime) end
redis.call('ZADD', apiTokens, '0', member)
table.insert(graced, 1, {current, tonumber(expireTime) or math.huge})
for i, each in ipairs(graced) do
  if graceMs == '0' or i > tonumber(mostGraced) then
    gone[#gone + 1] = each[1]
  else
    local ends = string.format('%.0f', math.min(each[2], now + graceMs))
    redis.call('HSET', keyOf(each[1]), 'is_replaced', '1', 'expire_time', ends)
    redis.call('PEXPIREAT', keyOf(each[1]), ends)
    publish(each[1])
  end
end
for _, each in ipairs(gone) do remove(each) end
return {'done', nowText}
