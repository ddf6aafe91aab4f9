-- Reads the enabled webhooks that have events after their cursors.
-- Returns the state of the environment, the time by Redis' clock, the time of the last check, and four values per
-- webhook. The four values are the id, the cursor, `1` if a worker may claim the webhook now (otherwise empty), and the
-- time of the event whose delivery failed (empty if no delivery failed). The time of the last check is empty before the
-- first check.
local prefix = string.sub(webhooks, 1, -9)
-- include: webhooks
local found = redis.call('HMGET', environment, 'state', 'version')
local answer = {found[1] or '', nowText, redis.call('HGET', times, 'check_time') or ''}
for _, id in ipairs(redis.call('ZRANGEBYLEX', webhooks, '-', '+')) do
  local record = redis.call('HMGET', webhookKey(id), 'state', 'cursor', 'lease_expire_time', 'next_attempt_time',
    'failed_event_time')
  if record[1] == 'enabled' and (tonumber(record[2]) or 0) < (tonumber(found[2]) or 0) then
    local isFree = (tonumber(record[3]) or 0) <= now and (tonumber(record[4]) or 0) <= now
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = id, record[2], isFree and '1' or '', record[5] or ''
  end
end
return answer
