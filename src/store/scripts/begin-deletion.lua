-- Begins the deletion of an environment. From now on, scripts refuse its changes, and its API tokens and user group
-- tokens are invalid. Deletes the keys that sign its viewer sessions. Returns `filled` if the environment has groups
-- and `force` is empty; or `done`.
if force == '' and redis.call('ZCARD', ids) > 0 then return {'filled', nowText} end
redis.call('EXISTS', signingKeys)
audit('', 'delete_time')
redis.call('HSET', environment, 'state', 'deleting', 'delete_time', nowText)
redis.call('UNLINK', signingKeys)
publish(message)
return {'done', nowText}
