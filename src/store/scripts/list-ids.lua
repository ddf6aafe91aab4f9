-- Lists the ids of groups. The list begins at the minimum `from` (in the form of ZRANGEBYLEX), and ends at the first id
-- that does not begin with `idPrefix`. If `contains` is not empty, lists only groups with this text in their name. The
-- comparison ignores the case of ASCII letters. Reads at most `count` ids.
-- Returns `found`, the time by Redis' clock, the last id that was read, and the listed ids. If no more ids with
-- `idPrefix` follow, returns an empty text instead of the last id.
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
