-- Reads a group, and the note on the revoked sessions of a viewer, whose digest may be empty.
-- Returns `gone` if the environment is not active; or `found`, Redis' clock, the note or an empty string, and the record, which
-- may be empty.
if redis.call('HGET', environment, 'state') ~= 'active' then return {'gone'} end
local note = viewer ~= '' and redis.call('HGET', ended, viewer)
return {'found', nowText, note or '', unpack(redis.call('HGETALL', group))}
