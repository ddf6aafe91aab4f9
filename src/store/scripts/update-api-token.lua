-- Changes an API token. If `displayName` is empty, the name does not change. If `expireTime` is `same`, the expiry time
-- does not change. If `expireTime` is empty, the API token gets no expiry time.
-- Returns `ApiTokenNotFound` or `unreadable`. Otherwise returns `done`, or `same` if nothing changed. The digests of
-- the secrets and the record follow.
-- include: api-tokens
local record, changed = recordOf(apiToken), {}
if not record then return {'ApiTokenNotFound', nowText} end
if not isComplete(record) then return {'unreadable', nowText} end
if displayName ~= '' and displayName ~= record.display_name then changed[1] = 'display_name' end
if expireTime ~= 'same' and expireTime ~= (record.expire_time or '') then changed[#changed + 1] = 'expire_time' end
local digests = digestsOf(record)
if #changed > 0 then
  audit(subjectOf(id, record.role, record.display_name), table.concat(changed, ','))
  if displayName ~= '' then redis.call('HSET', apiToken, 'display_name', displayName) end
  if expireTime ~= 'same' then setExpiry(apiToken, expireTime) end
  for _, digest in ipairs(digests) do publish(digest) end
end
return {#changed > 0 and 'done' or 'same', nowText, table.concat(digests, ' '), unpack(redis.call('HGETALL', apiToken))}
