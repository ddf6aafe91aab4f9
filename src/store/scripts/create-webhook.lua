-- Creates a webhook. The extra arguments are fields and values. The cursor starts at the event of the creation.
-- Returns `TooManyWebhooks` if the environment has `maxWebhooks` webhooks. Otherwise returns `done` and the record.
redis.call('EXISTS', webhook)
if redis.call('ZCARD', webhooks) >= tonumber(maxWebhooks) then return {'TooManyWebhooks', nowText} end
audit('w:' .. id, '')
redis.call('ZADD', webhooks, '0', id)
redis.call('HSET', webhook, 'create_time', nowText, 'update_time', nowText, 'state', 'enabled', 'cursor', versionText,
  'cursor_time', nowText, unpack(ARGV, extra))
return {'done', nowText, unpack(redis.call('HGETALL', webhook))}
