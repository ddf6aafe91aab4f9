-- Reads an API token. Returns nothing if it does not exist or its environment is not active; or Redis' clock, the path of the
-- environment, and the record.
local found = redis.call('HMGET', environment, 'state', 'path')
if found[1] ~= 'active' then return {} end
local record = redis.call('HGETALL', apiToken)
if #record == 0 then return {} end
return {nowText, found[2] or '', unpack(record)}
