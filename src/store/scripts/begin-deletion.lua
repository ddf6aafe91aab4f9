-- Begins the deletion of an environment, and deletes its signing keys. The API tokens and user group tokens of the
-- environment become invalid, and scripts refuse changes in the environment.
-- Returns `filled` if the environment has groups and `force` is empty. Otherwise returns `done`.
if force == '' and redis.call('ZCARD', ids) > 0 then return {'filled', nowText} end
redis.call('EXISTS', signingKeys)
audit('', 'delete_time')
redis.call('HSET', environment, 'state', 'deleting', 'delete_time', nowText)
redis.call('UNLINK', signingKeys)
publish(message)
return {'done', nowText}
