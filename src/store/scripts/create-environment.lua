-- Creates an environment with a number that has no record.
-- Returns `damaged` if this number has groups, because its record was lost. Otherwise returns `done`.
if redis.call('EXISTS', ids) == 1 then return {'damaged', nowText} end
audit('', '')
redis.call('HSET', environment, 'state', 'active', 'path', path, 'create_time', nowText)
return {'done', nowText}
