-- Finds the group to change, by its `id`, or by the digest `currentDigest` of its token if `id` is empty.
-- Output: `id`; `group`, the key of the group; `missing`, the answer if the group does not exist.
local missing = {currentDigest == '' and 'UserGroupNotFound' or 'TokenNotFound', nowText}
local group = target
if id == '' then
  id = holderOf(currentDigest)
  if not id then return missing end
  group = prefix .. 'group:' .. id
end
