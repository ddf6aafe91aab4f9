-- Revokes an API token with all its secrets. If `issued` is set, it also revokes all API tokens that this one created or rotated,
-- and so on. One call revokes at most `count` API tokens, in reverse order of their issue. So the next call finds the others, and
-- the ones that were issued in the meantime. The last call removes expired secrets from the list.
-- Returns `done` (or `none` if it revoked none), the numbers of revoked and of remaining API tokens, and the revoked digests.
-- include: api-tokens
local members = issued == '' and membersOf(id) or redis.call('ZRANGEBYLEX', apiTokens, '-', '+')
local membersById, issuedBy = {}, {}
local function note(list, key, value)
  list[key] = list[key] or {}
  list[key][#list[key] + 1] = value
end
for _, member in ipairs(members) do
  local of, creator, rotator = string.match(member, '^(%S+) %S+ ?(%S*) ?(%S*)')
  note(membersById, of, member)
  note(issuedBy, creator, of)
  if rotator ~= '' then note(issuedBy, rotator, of) end
end
local found, isFound, i = {id}, {[id] = true}, 1
while issued ~= '' and i <= #found do
  for _, of in ipairs(issuedBy[found[i]] or {}) do
    if not isFound[of] then found[#found + 1], isFound[of] = of, true end
  end
  i = i + 1
end
local left, subjects, ending = math.max(#found - tonumber(count), 0), {}, {}
for i = #found, left + 1, -1 do
  local subject
  for _, member in ipairs(membersById[found[i]] or {}) do
    local record = redis.call('HMGET', keyOf(member), 'id', 'role', 'display_name')
    if record[1] then subject = subjectOf(found[i], record[2], record[3]) end
    ending[#ending + 1] = member
  end
  subjects[#subjects + 1] = subject
end
local expired = {}
for _, member in ipairs(left == 0 and members or {}) do
  if redis.call('EXISTS', keyOf(member)) == 0 then expired[#expired + 1] = member end
end
for _, subject in ipairs(subjects) do audit(subject, '') end
local answer = {#subjects > 0 and 'done' or 'none', nowText, string.format('%.0f', #subjects), string.format('%.0f', left)}
for _, member in ipairs(ending) do
  revokeSecret(channel, member)
  answer[#answer + 1] = digestOf(member)
end
for _, member in ipairs(expired) do redis.call('ZREM', apiTokens, member) end
return answer
