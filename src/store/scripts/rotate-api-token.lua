-- Replaces the secret of an API token. The replaced secret gets a grace period of `graceMs`. The grace periods of older
-- secrets end no later than this grace period. Only the newest `maxPrevious` replaced secrets stay valid.
-- Returns `ApiTokenChanged`; `ApiTokenNotFound`; `unreadable`; or `ApiTokenOutlivesCaller` if the API token expires
-- later than `notBeyond`. Otherwise returns `done`, the digests of the changed and revoked secrets, and the record.
-- include: api-tokens
if not mayIssue() then return {'ApiTokenChanged', nowText} end
local record = recordOf(apiToken)
if not record then return {'ApiTokenNotFound', nowText} end
if not isComplete(record) then return {'unreadable', nowText} end
if notBeyond ~= '' and (tonumber(record.expire_time) or math.huge) > tonumber(notBeyond) then return {'ApiTokenOutlivesCaller', nowText} end
redis.call('HLEN', apiTokens)
local issuers = issuersOf(id, record.issuers or '')
audit(subjectOf(id, record.role, record.display_name), 'token')
local changed, previous = digestsOf(record), {}
local function replace(each, graceEnd)
  if graceEnd > now and #previous < tonumber(maxPrevious) then
    previous[#previous + 1] = each .. ' ' .. string.format('%.0f', graceEnd)
  else
    redis.call('HDEL', apiTokens, each)
  end
  publish(each)
end
replace(record.digest, now + graceMs)
for each, graceEnd in string.gmatch(record.previous or '', '(%S+) (%d+)') do
  replace(each, math.min(tonumber(graceEnd), now + graceMs))
end
redis.call('HSET', apiTokens, digest, id)
redis.call('HSET', apiToken, 'digest', digest, 'token_create_time', nowText, 'rotator', actorId)
if issuers then redis.call('HSET', apiToken, 'issuers', issuers) end
if #previous > 0 then
  redis.call('HSET', apiToken, 'previous', table.concat(previous, ' '))
else
  redis.call('HDEL', apiToken, 'previous')
end
return {'done', nowText, table.concat(changed, ' '), unpack(redis.call('HGETALL', apiToken))}
