-- Creates an environment. The number of the environment must have no record.
-- Returns `damaged` if the record is missing, but groups exist. Otherwise returns `done`.
if redis.call('EXISTS', ids) == 1 then return {'damaged', nowText} end
audit('', '')
redis.call('HSET', environment, 'state', 'active', 'path', path, 'create_time', nowText)
return {'done', nowText}
