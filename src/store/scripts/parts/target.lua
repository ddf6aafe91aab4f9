-- Finds the target of a change. With an `id`, `target` is the key of the group. Without one, the group must have the token with the
-- digest `currentDigest`. Output: `id`, `group` (its key) and `missing`, the answer if no such group exists.
local missing = {currentDigest == '' and 'UserGroupNotFound' or 'TokenNotFound', nowText}
local group = target
if id == '' then
  id = holderOf(currentDigest)
  if not id then return missing end
  group = prefix .. 'group:' .. id
end
