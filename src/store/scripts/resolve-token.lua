-- Reads the group that the index of tokens contains for a token. The caller must check that the record contains the
-- digest of the token, because an entry of the index may be outdated.
-- Returns `gone` if the environment is not active; `missing` if the index has no entry; or `found`, the time by Redis'
-- clock, the id and the record.
if redis.call('HGET', environment, 'state') ~= 'active' then return {'gone'} end
local id = redis.call('HGET', tokens, field)
if not id then return {'missing'} end
return {'found', nowText, id, unpack(redis.call('HGETALL', string.sub(environment, 1, -12) .. 'group:' .. id))}
