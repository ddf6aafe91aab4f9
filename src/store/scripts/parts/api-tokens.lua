-- The API tokens of an environment. The sorted set `apiTokens` has `ID DIGEST` for each secret of each API token. Takes
-- `prefix`.

-- The members for an id: no character of a digest comes after `z`.
local function membersOf(id)
  return redis.call('ZRANGEBYLEX', apiTokens, '[' .. id .. ' ', '(' .. id .. '~')
end

local function digestOf(member) return string.match(member, '[^ ]*$') end

local function keyOf(member) return prefix .. 'api-token:' .. digestOf(member) end

-- Notifies every worker to read a secret again, if the user of Redis may publish.
local function publish(member) redis.pcall('PUBLISH', channel, digestOf(member)) end

-- Revokes a secret.
local function remove(member)
  redis.call('DEL', keyOf(member))
  redis.call('ZREM', apiTokens, member)
  publish(member)
end
