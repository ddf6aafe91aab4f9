-- Lists ids of groups in their order: `from` as ZRANGEBYLEX has it, and all with one beginning. If `contains` is not empty, only
-- those whose names contain it; ASCII letters match in either case. It looks at `count` ids.
-- Answers `found`; Redis' clock; the last id that it looked at, or an empty text if no more follow; and the ids.
local found = redis.call('ZRANGEBYLEX', ids, from, '+', 'LIMIT', '0', string.format('%.0f', count + 1))
local groups, text, answer = string.sub(ids, 1, -4) .. 'group:', string.lower(contains), {'found', nowText, ''}
for i, id in ipairs(found) do
  if string.sub(id, 1, #idPrefix) ~= idPrefix then break end
  if i > tonumber(count) then
    answer[3] = found[i - 1]
    break
  end
  local name = text ~= '' and redis.call('HGET', groups .. id, 'n')
  if text == '' or name and string.find(string.lower(name), text, 1, true) then answer[#answer + 1] = id end
end
return answer
