-- Reads a hash. Answers nothing if it is missing; or `found`, Redis' clock and the record.
local record = redis.call('HGETALL', key)
if #record == 0 then return {} end
return {'found', nowText, unpack(record)}
