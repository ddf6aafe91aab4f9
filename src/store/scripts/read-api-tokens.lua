-- Reads secrets of API tokens in order of their ids, from `from` on, as ZRANGEBYLEX has it: about `count`, and of each API token
-- all. One script, so that no rotation comes between the list and the records. Answers `more` or `end`, Redis' clock and the
-- secrets.
local prefix = string.sub(apiTokens, 1, -11)
-- include: api-tokens
local members = redis.call('ZRANGEBYLEX', apiTokens, from, '+', 'LIMIT', '0', count)
local last = members[#members]
if #members < tonumber(count) then return append({'end', nowText}, members) end
local others = redis.call('ZRANGEBYLEX', apiTokens, '(' .. last, '(' .. string.match(last, '^[^ ]*') .. '~')
return append(append({'more', nowText}, members), others)
