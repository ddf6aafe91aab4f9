-- Revokes an API token with all its secrets and, if `issued` is set, all API tokens that it created or rotated, that these did,
-- and so on. Each gets an event, with its id, its role and its name. Secrets that have expired are taken off the list.
-- Answers `missing`, or `done`; and the digests of the secrets.
-- include: api-tokens
local members = issued == '' and membersOf(id) or redis.call('ZRANGEBYLEX', apiTokens, '-', '+')
local tokens, issuedBy, expired = {}, {}, {}
local function noteMaker(maker, of)
  issuedBy[maker] = issuedBy[maker] or {}
  table.insert(issuedBy[maker], of)
end
for _, member in ipairs(members) do
  local found = redis.call('HMGET', keyOf(member), 'id', 'role', 'display_name', 'creator', 'rotator')
  local of = string.match(member, '^[^ ]*')
  if not found[1] then
    expired[#expired + 1] = member
  else
    tokens[of] = tokens[of] or {subject = of .. ' ' .. (found[2] or '') .. ' ' .. (found[3] or '')}
    table.insert(tokens[of], member)
    noteMaker(found[4] or '', of)
    if found[5] then noteMaker(found[5], of) end
  end
end
local ending, isEnding, makers = {}, {[id] = true}, {id}
if tokens[id] then ending[1] = id end
while issued ~= '' and #makers > 0 do
  for _, of in ipairs(issuedBy[table.remove(makers)] or {}) do
    if not isEnding[of] then
      isEnding[of] = true
      ending[#ending + 1], makers[#makers + 1] = of, of
    end
  end
end
local digests = {}
for _, of in ipairs(ending) do audit('t:' .. tokens[of].subject, '') end
for _, of in ipairs(ending) do
  for _, member in ipairs(tokens[of]) do
    remove(member)
    digests[#digests + 1] = digestOf(member)
  end
end
for _, member in ipairs(expired) do redis.call('ZREM', apiTokens, member) end
if #ending == 0 then return {'missing', nowText} end
return {'done', nowText, string.format('%.0f', #ending), unpack(digests)}
