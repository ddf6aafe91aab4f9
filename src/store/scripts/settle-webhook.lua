-- Stores the result of one delivery step. `holder` must have the lease of the webhook. `outcome` is empty if no event
-- was sent.
-- If the cursor is still at `from`, a step without a failure moves the cursor to `to`, and a failed step sets the time
-- of the next attempt. If deliveries have failed for `disableAfterMs`, the failed step disables the webhook as well.
-- If the step failed, or if `release` is not empty, the lease is released. Otherwise, the lease is extended until
-- `leaseMs` from now. If an event was sent, `entry` is added to the log of deliveries. The log keeps the last
-- `maxDeliveries` entries.
-- Returns `lost` if `holder` does not have the lease. Otherwise returns `done` and the record.
-- include: webhooks
local found = redis.call('HMGET', webhook, 'holder', 'state', 'cursor', 'failing_since', 'failed_attempts', 'delivery')
if found[1] ~= holder then return {'lost', nowText} end
redis.call('XLEN', deliveries)
local hasFailed, isCurrent = outcome ~= '' and outcome ~= 'delivered', found[3] == from
local attempt = (isCurrent and tonumber(found[5]) or 0) + 1.0
if hasFailed and isCurrent and found[2] == 'enabled' and now - (tonumber(found[4]) or now) >= tonumber(disableAfterMs) then
  audit('w:' .. id, 'state')
  redis.call('HSET', webhook, 'state', 'failed', 'update_time', nowText)
end
if outcome ~= '' then
  local delivery = string.format('%.0f', math.max(micros, (tonumber(found[6]) or 0) + 1.0))
  redis.call('XADD', deliveries, delivery .. '-0', 'd', entry, 'n', string.format('%.0f', attempt))
  redis.call('XTRIM', deliveries, 'MAXLEN', '=', maxDeliveries)
  redis.call('HSET', webhook, 'delivery', delivery)
end
if hasFailed and isCurrent then
  redis.call('HSET', webhook, 'failed_attempts', string.format('%.0f', attempt), 'failing_since', found[4] or nowText,
    'failed_event_time', eventTime, 'next_attempt_time', string.format('%.0f', now + retryMs))
elseif isCurrent then
  redis.call('HSET', webhook, 'cursor', to, 'cursor_time', toTime)
  if outcome ~= '' then
    forgetFailures(webhook)
    redis.call('HSET', webhook, 'last_success_time', nowText)
  end
end
if hasFailed or release ~= '' then
  redis.call('HDEL', webhook, 'holder', 'lease_expire_time')
else
  redis.call('HSET', webhook, 'lease_expire_time', string.format('%.0f', now + leaseMs))
end
return {'done', nowText, unpack(redis.call('HGETALL', webhook))}
