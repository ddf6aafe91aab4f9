-- Stores the current time in the field `field` of the hash `times`. If `refresh` is not empty, also sets the field
-- `cursor_time` to the current time for each webhook that has no undelivered events.
-- Returns `recent` and the remaining milliseconds if the stored time is less than `intervalMs` old. In this case,
-- changes nothing. Otherwise returns `done`.
-- include: webhooks
local noted = tonumber(redis.call('HGET', times, field) or '0') or 0
local left = noted + intervalMs - now
if left > 0 and noted <= now then return {'recent', nowText, string.format('%.0f', left)} end
local current = {}
for _, id in ipairs(refresh ~= '' and redis.call('ZRANGEBYLEX', webhooks, '-', '+') or {}) do
  local record = redis.call('HMGET', webhookKey(id), 'cursor', 'cursor_time')
  if record[1] == before[2] and record[2] ~= '' then current[#current + 1] = webhookKey(id) end
end
redis.call('HSET', times, field, nowText)
for _, key in ipairs(current) do redis.call('HSET', key, 'cursor_time', nowText) end
return {'done', nowText}
