-- Reads a group, and the note on the revoked sessions of a viewer. `viewer` is a digest, or empty.
-- Returns `gone` if the environment is not active. Otherwise returns `found`, Redis' clock, the note (empty without a
-- note), and the record (empty without a group).
if redis.call('HGET', environment, 'state') ~= 'active' then return {'gone'} end
local note = viewer ~= '' and redis.call('HGET', ended, viewer)
return {'found', nowText, note or '', unpack(redis.call('HGETALL', group))}
