-- Reads a hash. Returns nothing if it does not exist; or `found`, Redis' clock and the record.
local record = redis.call('HGETALL', key)
if #record == 0 then return {} end
return {'found', nowText, unpack(record)}
