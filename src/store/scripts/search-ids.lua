-- As `list-ids`, of groups whose name contains a text. ASCII letters match in either case. It looks at `count` groups.
-- Answers `found`, Redis' clock, the last id that it looked at, or an empty text if it looked at all, and the ids.
local found = redis.call('ZRANGEBYLEX', ids, from, '+', 'LIMIT', '0', count)
local groups, text, matching = string.sub(ids, 1, -4) .. 'group:', string.lower(contains), {}
local isEnd = #found < tonumber(count)
for _, id in ipairs(found) do
  if string.sub(id, 1, #idPrefix) ~= idPrefix then
    isEnd = true
    break
  end
  local name = redis.call('HGET', groups .. id, 'n')
  if name and string.find(string.lower(name), text, 1, true) then matching[#matching + 1] = id end
end
return {'found', nowText, isEnd and '' or found[#found], unpack(matching)}
