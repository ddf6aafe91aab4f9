-- Input: `prefix`.

local function webhookKey(id) return prefix .. 'webhook:' .. id end

local function appendRecord(answer, key)
  for _, text in ipairs(redis.call('HGETALL', key)) do answer[#answer + 1] = text end
  return answer
end

local function forgetFailures(key)
  redis.call('HDEL', key, 'failed_attempts', 'failing_since', 'failed_event_time', 'next_attempt_time')
end
