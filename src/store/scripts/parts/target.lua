-- Finds the group to change. If `id` is not empty, `target` is the key of the group. If `id` is empty, finds the group
-- that has the token with the digest `currentDigest`.
-- Output: `id`; `group`, the key of the group; `missing`, the answer if the group does not exist.
local missing = {currentDigest == '' and 'UserGroupNotFound' or 'TokenNotFound', nowText}
local group = target
if id == '' then
  id = holderOf(currentDigest)
  if not id then return missing end
  group = prefix .. 'group:' .. id
end
