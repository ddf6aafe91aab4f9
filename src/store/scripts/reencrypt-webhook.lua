-- Sets the encrypted secrets of a webhook, if they are still `expected`. Returns `changed` or `done`.
if redis.call('HGET', webhook, 'secrets') ~= expected then return {'changed', nowText} end
redis.call('HSET', webhook, 'secrets', secrets)
return {'done', nowText}
