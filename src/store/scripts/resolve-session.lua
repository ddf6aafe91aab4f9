-- Reads a group, and the note on the revoked sessions of a viewer. `viewer` is the digest of the viewer id, or empty.
-- Returns `gone` if the environment is not active. Otherwise returns `found`, the time by Redis' clock, the note and
-- the record. The note is empty if there is no note. The record is empty if there is no group.
if redis.call('HGET', environment, 'state') ~= 'active' then return {'gone'} end
local note = viewer ~= '' and redis.call('HGET', ended, viewer)
return {'found', nowText, note or '', unpack(redis.call('HGETALL', group))}
