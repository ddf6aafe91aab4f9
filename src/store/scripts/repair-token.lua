-- Restores the lost index entry of a group's current token.
-- Returns `changed` if the group has another token; `TokenTaken` if another group has the token; or `done`.
local prefix = string.sub(environment, 1, -12)
-- include: tokens
if redis.call('HGET', group, 'd') ~= digest then return {'changed', nowText} end
if isTaken(digest, id) then return {'TokenTaken', nowText} end
local bucket, field = entryOf(digest)
redis.call('HSET', bucket, field, id)
return {'done', nowText}
