-- API tokens. The sorted set `apiTokens` has a member `ID DIGEST CREATOR ROTATOR` for each secret of each API token. ROTATOR is empty
-- for a secret that no rotation created. Input: `prefix`.

-- The members for an id: no character of a digest comes after `z`.
local function membersOf(id)
  return redis.call('ZRANGEBYLEX', apiTokens, '[' .. id .. ' ', '(' .. id .. '~')
end

local function digestOf(member) return string.match(member, ' ([^ ]*)') end

local function keyOf(member) return prefix .. 'api-token:' .. digestOf(member) end

-- Returns the unexpired secrets of an API token, and the current one, which no rotation replaced.
local function secretsOf(id)
  local secrets, current = {}, nil
  for _, member in ipairs(membersOf(id)) do
    local key, record = keyOf(member), {}
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do record[fields[i]] = fields[i + 1] end
    if #fields > 0 and (tonumber(record.expire_time) or math.huge) > now then
      secrets[#secrets + 1] = {member = member, key = key, record = record}
      if not record.is_replaced then current = secrets[#secrets] end
    end
  end
  return secrets, current or secrets[1]
end

-- Whether a record has the required fields.
local function isComplete(record)
  return record.role and record.creator and record.display_name and tonumber(record.token_create_time)
end

-- The subject of an audit event.
local function subjectOf(id, role, displayName) return 't:' .. id .. ' ' .. (role or '') .. ' ' .. (displayName or '') end

-- Appends secrets to an answer. Each is its member, the length of its record, and the record.
local function append(answer, members)
  for _, member in ipairs(members) do
    local record = redis.call('HGETALL', keyOf(member))
    answer[#answer + 1], answer[#answer + 2] = member, string.format('%.0f', #record)
    for _, text in ipairs(record) do answer[#answer + 1] = text end
  end
  return answer
end

-- Stores a new secret under `key`.
local function addSecret(key, record)
  record.token_create_time = nowText
  local fields = {}
  for name, value in pairs(record) do fields[#fields + 1], fields[#fields + 2] = name, value end
  redis.call('HSET', key, unpack(fields))
  if record.expire_time then redis.call('PEXPIREAT', key, record.expire_time) end
  local digest = string.sub(key, #prefix + #'api-token:' + 1)
  redis.call('ZADD', apiTokens, '0', table.concat({record.id, digest, record.creator, record.rotator or ''}, ' '))
end

-- Makes all workers drop a secret from their caches. pcall: the user of Redis may lack the right to publish.
local function publish(channel, member) redis.pcall('PUBLISH', channel, digestOf(member)) end

-- Revokes a secret.
local function revokeSecret(channel, member)
  redis.call('DEL', keyOf(member))
  redis.call('ZREM', apiTokens, member)
  publish(channel, member)
end
