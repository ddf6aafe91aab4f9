-- Finds the group to change. With an `id`, `target` is the key of the group. Without an `id`, the group must have the
-- token with the digest `currentDigest`.
-- Output: `id`; `group`, the key of the group; and `missing`, the answer if no such group exists.
local missing = {currentDigest == '' and 'UserGroupNotFound' or 'TokenNotFound', nowText}
local group = target
if id == '' then
  id = holderOf(currentDigest)
  if not id then return missing end
  group = prefix .. 'group:' .. id
end
