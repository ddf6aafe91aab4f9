-- Begins every audited change of an environment. Takes `environment`, the key of its record; `state`, in which it must be,
-- empty if there must be none; `stream`, which gets the events; and the arguments of an event (`audit.ts`). Answers `gone` and
-- the state if the environment is in another one.
-- Gives `prefix`, which begins every key of the environment; `version` and `versionText`, those of this change; and `audit`.
local prefix = string.sub(environment, 1, -12)
-- This key never exists. While the slot is migrating, Redis fails a script at the first missing key that it reads: here,
-- before any write.
redis.call('EXISTS', prefix .. 'moving')
local before = redis.call('HMGET', environment, 'state', 'version')
if (before[1] or '') ~= state then return {'gone', nowText, before[1] or ''} end
local version = math.max(micros, (tonumber(before[2] or '0') or 0) + 1.0)
local versionText = string.format('%.0f', version)
local nextVersion, day = version, math.floor(version / 86400000000.0)
local trail = prefix .. stream .. ':' .. string.format('%.0f', day)
local length = redis.call('XLEN', trail)
local mostEvents = stream == 'updates' and tonumber(most) or math.huge

-- Writes an event. Comes before all other writes, once for each change; a second one has the next version. Returns how many
-- older events it removed because there are more than `most`.
local function audit(subject, changedFields)
  local id = string.format('%.0f', nextVersion)
  redis.call('XADD', trail, id .. '-0', 'a', actorId, 'n', actorName, 'r', role, 'm', method, 'i', subject,
    'f', changedFields, 'q', requestId, 'p', peer)
  redis.call('HSET', environment, 'version', id)
  if length == 0 then redis.call('PEXPIREAT', trail, string.format('%.0f', (day + 1.0) * 86400000.0 + keptMs)) end
  length = length + 1
  nextVersion = nextVersion + 1.0
  if length % 64 == 0 and length > mostEvents then return redis.call('XTRIM', trail, 'MAXLEN', '~', most) end
  return 0
end
