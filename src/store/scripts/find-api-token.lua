-- Reads the API token that the hash `apiTokens` contains for a secret. The caller must check that the record contains
-- the digest of the secret, because an entry of the hash may be outdated.
-- Returns nothing if the API token does not exist, or if the environment is not active. Otherwise returns `found`, the
-- time by Redis' clock, the path of the environment, and the id and the record of the API token.
local found = redis.call('HMGET', environment, 'state', 'path')
if found[1] ~= 'active' then return {} end
local id = redis.call('HGET', apiTokens, digest)
if not id then return {} end
local record = redis.call('HGETALL', string.sub(environment, 1, -12) .. 'api-token:' .. id)
if #record == 0 then return {} end
return {'found', nowText, found[2] or '', id, unpack(record)}
