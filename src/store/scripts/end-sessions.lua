-- Revokes viewer sessions of a group. If `viewer` is empty, revokes all sessions. Otherwise, `viewer` is the digest of
-- a viewer id. The script then revokes the sessions of this viewer, and writes a note on the viewer. A note is the
-- oldest valid generation, a colon, and the time of the note. A group has at most `maxViewers` notes. The version of
-- the group does not change, because callers cannot see the changed values.
-- Returns `UserGroupNotFound`; `unreadable`; `TooManyEndedViewers`; or `done`.
-- include: tokens
local found = redis.call('HMGET', group, 'g', 's')
if not found[1] then return {redis.call('EXISTS', group) == 1 and 'unreadable' or 'UserGroupNotFound', nowText} end
local ended, generation = prefix .. 'sessions:' .. found[1], nextGeneration(found[2])
local count, old = redis.call('HLEN', ended), {}
if viewer ~= '' and count >= tonumber(maxViewers) and redis.call('HEXISTS', ended, viewer) == 0 then
  local notes = redis.call('HGETALL', ended)
  for i = 1, #notes, 2 do
    local noted = tonumber(string.match(notes[i + 1], ':(%d+)$') or '0')
    if now - noted > tonumber(notesTtlMs) then old[#old + 1] = notes[i] end
  end
  if count - #old >= tonumber(maxViewers) then return {'TooManyEndedViewers', nowText} end
end
audit('g:' .. id, 'viewer_sessions')
if viewer == '' then
  redis.call('HSET', group, 's', generation, 'b', generation)
  redis.call('UNLINK', ended)
else
  for _, name in ipairs(old) do redis.call('HDEL', ended, name) end
  redis.call('HSET', group, 's', generation)
  redis.call('HSET', ended, viewer, generation .. ':' .. nowText)
  redis.call('PEXPIRE', ended, notesTtlMs)
end
return {'done', nowText}
