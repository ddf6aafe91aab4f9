-- Starts each audited change of an environment (`environmentScript` in scripts.ts). If the environment does not have
-- the required state, the script ends, and returns `gone` and the state.
-- Output: `prefix`, the first part of all keys of the environment; the version of this change, as the number `version`
-- and as the text `versionText`; the functions `audit` and `publish`.
local prefix = string.sub(environment, 1, -12)
-- The key `moving` never exists. While the slot is migrating, Redis stops the script at this key, before any write.
redis.call('EXISTS', prefix .. 'moving')
local before = redis.call('HMGET', environment, 'state', 'version')
if (before[1] or '') ~= state then return {'gone', nowText, before[1] or ''} end
local version = math.max(micros, (tonumber(before[2] or '0') or 0) + 1.0)
local versionText = string.format('%.0f', version)
local nextVersion, day = version, math.floor(version / 86400000000.0)
local trail = prefix .. stream .. ':' .. string.format('%.0f', day)
local length = redis.call('XLEN', trail)
local maxLength = stream == 'updates' and tonumber(maxUpdates) or math.huge

-- Sends a message to all workers (`REVOKED_CHANNEL` in keys.ts). Ignores errors, because the user of Redis may lack the
-- right to publish.
local function publish(message) redis.pcall('PUBLISH', 'ug:revoked', message) end

-- Writes an event. The script must call `audit` before all other writes. If a script writes several events, each event
-- gets the next version.
-- If a day has more than `maxUpdates` updates of groups, removes old updates. Returns the number of removed updates.
local function audit(subject, changedFields)
  local id = string.format('%.0f', nextVersion)
  redis.call('XADD', trail, id .. '-0', 'a', actorId, 'n', actorName, 'r', role, 'm', method, 'i', subject,
    'f', changedFields, 'q', requestId, 'p', peer)
  redis.call('HSET', environment, 'version', id)
  if length == 0 then redis.call('PEXPIREAT', trail, string.format('%.0f', (day + 1.0) * 86400000.0 + retentionMs)) end
  length = length + 1
  nextVersion = nextVersion + 1.0
  if length % 64 > 0 or length <= maxLength then return 0 end
  local removed = redis.call('XTRIM', trail, 'MAXLEN', '~', maxUpdates)
  if removed > 0 then
    -- The feed compares cursors with `trimmed`, and so detects that events were removed.
    local first = redis.call('XRANGE', trail, '-', '+', 'COUNT', '1')[1][1]
    redis.call('HSET', environment, 'trimmed', string.match(first, '%d+'))
  end
  return removed
end
