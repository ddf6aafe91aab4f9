-- Creates a webhook with the extra arguments as fields. The cursor of the webhook is the event of its creation.
-- Returns `TooManyWebhooks` at the limit `maxWebhooks`; or `done` and the record.
-- include: webhooks
redis.call('EXISTS', webhook)
if redis.call('ZCARD', webhooks) >= tonumber(maxWebhooks) then return {'TooManyWebhooks', nowText} end
audit('w:' .. id, '')
redis.call('ZADD', webhooks, '0', id)
redis.call('HSET', webhook, 'create_time', nowText, 'update_time', nowText, 'state', 'enabled', 'cursor', versionText,
  'cursor_time', nowText, unpack(ARGV, extra))
return appendRecord({'done', nowText}, webhook)
