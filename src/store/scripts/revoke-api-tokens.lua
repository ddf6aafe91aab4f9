-- Revokes an API token with all its secrets. If `issued` is set, it also revokes all API tokens that this one created or rotated,
-- and so on. One call revokes at most `count` API tokens, issued tokens before their issuers, so the next call finds the
-- remaining tokens. Until the last call, or for `pauseMs`, no API token of the environment can issue API tokens. The last call removes expired secrets from
-- the index.
-- Returns `done` (or `none` if it revoked none), the numbers of revoked and of remaining API tokens, and the revoked digests.
-- include: api-tokens
local entries, digestsById, issuedBy = issued == '' and {} or redis.call('HGETALL', apiTokens), {}, {}
local function note(list, key, value)
  list[key] = list[key] or {}
  list[key][#list[key] + 1] = value
end
for i = 1, #entries, 2 do
  local of, creator, rotator = string.match(entries[i + 1], '^(%S+) ?(%S*) ?(%S*)')
  note(digestsById, of, entries[i])
  note(issuedBy, creator, of)
  if rotator ~= '' then note(issuedBy, rotator, of) end
end
local found, isFound, i = {id}, {[id] = true}, 1
while i <= #found do
  for _, of in ipairs(issuedBy[found[i]] or {}) do
    if not isFound[of] then found[#found + 1], isFound[of] = of, true end
  end
  i = i + 1
end
local left, subjects, digests = math.max(#found - tonumber(count), 0), {}, {}
for i = #found, left + 1, -1 do
  local record = recordOf(keyOf(found[i]))
  if record then subjects[#subjects + 1] = subjectOf(found[i], record.role, record.display_name) end
  for _, digest in ipairs(digestsById[found[i]] or record and digestsOf(record) or {}) do digests[#digests + 1] = digest end
end
local expired = {}
for of, list in pairs(left == 0 and digestsById or {}) do
  if not isFound[of] and redis.call('EXISTS', keyOf(of)) == 0 then expired[#expired + 1] = list end
end
redis.call('HLEN', apiTokens)
for _, subject in ipairs(subjects) do audit(subject, '') end
if left > 0 then
  redis.call('HSET', environment, 'issue_time', string.format('%.0f', now + pauseMs))
elseif issued ~= '' then
  redis.call('HDEL', environment, 'issue_time')
end
for i = #found, left + 1, -1 do redis.call('DEL', keyOf(found[i])) end
for _, digest in ipairs(digests) do
  redis.call('HDEL', apiTokens, digest)
  publish(channel, digest)
end
for _, list in ipairs(expired) do redis.call('HDEL', apiTokens, unpack(list)) end
return {#subjects > 0 and 'done' or 'none', nowText, string.format('%.0f', #subjects), string.format('%.0f', left),
  unpack(digests)}
