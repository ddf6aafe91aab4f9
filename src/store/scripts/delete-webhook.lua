-- Deletes a webhook with its log of deliveries. Returns `no-webhook`; or `done`.
if redis.call('EXISTS', webhook) == 0 then return {'no-webhook', nowText} end
redis.call('EXISTS', deliveries)
redis.call('ZSCORE', webhooks, id)
audit('w:' .. id, '')
redis.call('ZREM', webhooks, id)
redis.call('UNLINK', webhook)
redis.call('UNLINK', deliveries)
return {'done', nowText}
