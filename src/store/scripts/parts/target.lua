-- Finds the group of a target: the key `target` with the `id`; without an `id`, the group whose token has the digest `old`.
local missing = {old == '' and 'no-group' or 'no-token', nowText}
local group = target
if id == '' then
  id = holderOf(old)
  if not id then return missing end
  group = prefix .. 'group:' .. id
end
