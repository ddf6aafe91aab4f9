-- API tokens. The hash `apiTokens` maps the digest of each secret to the id of an API token. An entry may be outdated,
-- so scripts must check the record of the API token. Input: `prefix`, `environment`, `actorId`.

-- If the caller uses an API token that Redis stores, this is the id of this API token. Otherwise nil.
local issuer = string.match(actorId, '^' .. string.rep('%w', 16) .. '$')

local function keyOf(id) return prefix .. 'api-token:' .. id end

-- Returns the record of an API token, or nil if the API token does not exist or has expired.
local function recordOf(key)
  local record, fields = {}, redis.call('HGETALL', key)
  for i = 1, #fields, 2 do record[fields[i]] = fields[i + 1] end
  if #fields > 0 and (tonumber(record.expire_time) or math.huge) > now then return record end
end

local function isComplete(record)
  return record.role and record.creator and record.display_name and record.digest and tonumber(record.token_create_time)
end

-- Returns the digests of the current secret and of the former secrets.
local function digestsOf(record)
  local digests = {record.digest}
  for digest in string.gmatch(record.previous or '', '(%S+) %d+') do digests[#digests + 1] = digest end
  return digests
end

-- Returns whether the caller may create or rotate API tokens. If `issuer` is not nil, the API token `issuer` must still
-- exist, and the time `issue_time` of the environment must have passed (see `pauseMs` in revoke-api-tokens.lua).
local function mayIssue()
  if not issuer then return true end
  return redis.call('EXISTS', keyOf(issuer)) == 1 and (tonumber(redis.call('HGET', environment, 'issue_time') or '0') or 0) <= now
end

-- Returns the ids of the issuers of the API token `id`, or nil if `issuer` is nil. The list contains `issuer`, the
-- issuers of `issuer`, and `others`. Because the list contains indirect issuers, it stays complete even if `issuer` is
-- revoked. After the first 100 ids, the list contains only ids of existing API tokens.
local function issuersOf(id, others)
  if not issuer then return nil end
  local list, isKnown = {}, {[id] = true}
  for each in string.gmatch(issuer .. ' ' .. (redis.call('HGET', keyOf(issuer), 'issuers') or '') .. ' ' .. others, '%S+') do
    if not isKnown[each] and (#list < 100 or redis.call('EXISTS', keyOf(each)) == 1) then list[#list + 1] = each end
    isKnown[each] = true
  end
  return table.concat(list, ' ')
end

local function subjectOf(id, role, displayName) return 't:' .. id .. ' ' .. (role or '') .. ' ' .. (displayName or '') end

-- Sets the expiry time of an API token. An empty time means that the API token does not expire.
local function setExpiry(key, expireTime)
  if expireTime == '' then
    redis.call('HDEL', key, 'expire_time')
    redis.call('PERSIST', key)
  else
    redis.call('HSET', key, 'expire_time', expireTime)
    redis.call('PEXPIREAT', key, expireTime)
  end
end
