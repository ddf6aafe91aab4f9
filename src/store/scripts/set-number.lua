-- Sets the number of an environment under its name, or removes it if `number` is empty; if `was` is not empty, only if `was` is
-- the number there. Answers `changed` or `done`.
if was ~= '' and redis.call('GET', key) ~= was then return {'changed', nowText} end
if number == '' then redis.call('DEL', key) else redis.call('SET', key, number) end
return {'done', nowText}
