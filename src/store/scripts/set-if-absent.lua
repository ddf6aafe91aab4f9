-- Sets a string unless it is there. Answers `done` or `found`, and the text that is there now.
local text = redis.call('GET', key)
if text then return {'found', nowText, text} end
redis.call('SET', key, value)
return {'done', nowText, value}
