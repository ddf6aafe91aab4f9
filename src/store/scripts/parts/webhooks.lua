-- Input: `prefix`.

local function webhookKey(id) return prefix .. 'webhook:' .. id end

local function forgetFailures(key)
  redis.call('HDEL', key, 'failed_attempts', 'failing_since', 'failed_event_time', 'next_attempt_time')
end
