-- Creates an environment, if its number is free. Answers `gone` and the state of the environment that has the number; `damaged`
-- if there is none, but groups of one; or `done`.
if redis.call('EXISTS', ids) == 1 then return {'damaged', nowText} end
audit('', '')
redis.call('HSET', environment, 'state', 'active', 'path', path, 'create_time', nowText)
return {'done', nowText}
