-- Begins the deletion of an environment: from now on every change of it is refused, its API tokens and user group tokens are
-- revoked, and the keys that sign its viewer sessions are gone. Answers `gone` and its state; `filled` if it has groups and
-- `force` is not set; or `done`.
if force == '' and redis.call('ZCARD', ids) > 0 then return {'filled', nowText} end
redis.call('EXISTS', signingKeys)
audit('', 'delete_time')
redis.call('HSET', environment, 'state', 'deleting', 'delete_time', nowText)
redis.call('UNLINK', signingKeys)
redis.pcall('PUBLISH', channel, message)
return {'done', nowText}
