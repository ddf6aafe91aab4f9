-- Reads secrets of API tokens in the order of their ids, starting at `from` (as in ZRANGEBYLEX). It reads about `count` secrets,
-- and all secrets of each API token. One script reads the list and the records, so no rotation happens in between.
-- Returns `more` or `end`, Redis' clock, and the secrets.
local prefix = string.sub(apiTokens, 1, -11)
-- include: api-tokens
local members = redis.call('ZRANGEBYLEX', apiTokens, from, '+', 'LIMIT', '0', count)
local last = members[#members]
if #members < tonumber(count) then return append({'end', nowText}, members) end
local others = redis.call('ZRANGEBYLEX', apiTokens, '(' .. last, '(' .. string.match(last, '^[^ ]*') .. '~')
return append(append({'more', nowText}, members), others)
