-- Writes an event on an API token that expires in at most `days` days. It writes no second event for the same expiry time and the
-- same or more days.
-- Returns `none` or `done`.
-- include: api-tokens
local record = recordOf(apiToken)
if not record or record.expire_time ~= expireTime or not isComplete(record) then return {'none', nowText} end
local noticedTime, noticedDays = string.match(record.noticed or '', '^(%d+):(%d+)$')
if noticedTime == expireTime and tonumber(noticedDays) <= tonumber(days) then return {'none', nowText} end
audit(subjectOf(id, record.role, record.display_name), 'expire_time')
redis.call('HSET', apiToken, 'noticed', expireTime .. ':' .. days)
return {'done', nowText}
