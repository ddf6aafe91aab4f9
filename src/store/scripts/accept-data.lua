-- Notes that an operator accepts the data, under the id that it has, or else `id`. Answers what is there now.
local found = string.match(redis.call('GET', key) or '', '^%d+ (%x+)')
local text = layout .. ' ' .. (found or id) .. ' ' .. nowText
redis.call('SET', key, text)
return {'done', nowText, text}
