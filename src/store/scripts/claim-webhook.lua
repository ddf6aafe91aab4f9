-- Claims the lease of a webhook for `holder` until `leaseMs` from now.
-- Returns `busy` if the webhook is not enabled or has no undelivered events, if another worker has the lease, or if a
-- failure delays the next attempt. Otherwise returns `done` and the record.
local found = redis.call('HMGET', webhook, 'state', 'cursor', 'lease_expire_time', 'next_attempt_time')
local isDue = found[1] == 'enabled' and (tonumber(found[2]) or 0) < (tonumber(before[2]) or 0)
if not isDue or (tonumber(found[3]) or 0) > now or (tonumber(found[4]) or 0) > now then return {'busy', nowText} end
redis.call('HSET', webhook, 'holder', holder, 'lease_expire_time', string.format('%.0f', now + leaseMs))
return {'done', nowText, unpack(redis.call('HGETALL', webhook))}
