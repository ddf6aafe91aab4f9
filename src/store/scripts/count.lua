-- Adds to a count that lasts for a window of time, which begins with what is counted first. A count without an end, which an
-- operator may have made, gets one. Answers the count, and when the window ends in milliseconds from now.
local count = redis.call('INCRBY', key, amount)
local left = redis.call('PTTL', key)
if left < 0 then
  left = windowSeconds * 1000
  redis.call('PEXPIRE', key, string.format('%.0f', left))
end
return {string.format('%.0f', count), string.format('%.0f', left)}
