-- Reads the secrets of API tokens, in order of their ids: `from` and `to` as ZRANGEBYLEX has them, `count` at most. So no rotation
-- comes between the list and the records. Answers `found` and, for each secret, its member, how many fields and values its record
-- has, and these.
local prefix, answer = string.sub(apiTokens, 1, -11), {'found'}
for _, member in ipairs(redis.call('ZRANGEBYLEX', apiTokens, from, to, 'LIMIT', '0', count)) do
  local record = redis.call('HGETALL', prefix .. 'api-token:' .. string.match(member, '[^ ]*$'))
  answer[#answer + 1], answer[#answer + 2] = member, string.format('%.0f', #record)
  for _, text in ipairs(record) do answer[#answer + 1] = text end
end
return answer
