-- Deletes a webhook and its log of deliveries. Returns `WebhookNotFound` or `done`.
if redis.call('EXISTS', webhook) == 0 then return {'WebhookNotFound', nowText} end
redis.call('EXISTS', deliveries)
redis.call('ZSCORE', webhooks, id)
audit('w:' .. id, '')
redis.call('ZREM', webhooks, id)
redis.call('UNLINK', webhook)
redis.call('UNLINK', deliveries)
return {'done', nowText}
