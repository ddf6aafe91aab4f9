-- Sets the number of an environment under its name if the number there is `was`, empty if there is none; or removes it if
-- `number` is empty. Answers `changed` or `done`.
if (redis.call('GET', key) or '') ~= was then return {'changed', nowText} end
if number == '' then redis.call('DEL', key) else redis.call('SET', key, number) end
return {'done', nowText}
