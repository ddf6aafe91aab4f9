-- Lists ids in their order, `count` at most: `from` as ZRANGEBYLEX has it, and all with one beginning.
-- Answers `found`, Redis' clock and the ids.
local found = redis.call('ZRANGEBYLEX', ids, from, '+', 'LIMIT', '0', count)
while #found > 0 and string.sub(found[#found], 1, #idPrefix) ~= idPrefix do found[#found] = nil end
return {'found', nowText, unpack(found)}
