-- Lists the group ids that begin with `idPrefix`, from `from` (as in ZRANGEBYLEX). If `contains` is not empty, lists a
-- group only if its name contains this text. The case of ASCII letters is ignored. Reads at most `count` ids.
-- Returns `found`, Redis' clock, the last id that was read, and the ids. If no more ids follow, the last id is empty.
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
