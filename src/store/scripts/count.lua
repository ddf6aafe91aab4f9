-- Adds `amount` to a counter. If the counter has no expiry time, for example because it is new, sets the expiry
-- time to `windowSeconds` from now.
-- Returns the count, and the milliseconds until the expiry.
local count = redis.call('INCRBY', key, amount)
local left = redis.call('PTTL', key)
if left < 0 then
  left = windowSeconds * 1000
  redis.call('PEXPIRE', key, string.format('%.0f', left))
end
return {string.format('%.0f', count), string.format('%.0f', left)}
