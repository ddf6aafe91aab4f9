-- Writes an `api_token.expiring` event, which reports that the API token expires in at most `days` days.
-- Returns `none` if the API token does not have the expiry time `expireTime`, or if an earlier event reported the same
-- expiry time with the same or a smaller number of days. Otherwise returns `done`.
-- include: api-tokens
local record = recordOf(apiToken)
if not record or record.expire_time ~= expireTime or not isComplete(record) then return {'none', nowText} end
local noticedTime, noticedDays = string.match(record.noticed or '', '^(%d+):(%d+)$')
if noticedTime == expireTime and tonumber(noticedDays) <= tonumber(days) then return {'none', nowText} end
audit(subjectOf(id, record.role, record.display_name), 'expire_time')
redis.call('HSET', apiToken, 'noticed', expireTime .. ':' .. days)
return {'done', nowText}
