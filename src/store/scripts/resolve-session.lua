-- Reads a group, and the note in `ended` about a viewer, whose digest is empty if nobody is named.
-- Answers `gone` if the environment is not active; or `found`, the note or an empty text, and the record, which may be empty.
if redis.call('HGET', environment, 'state') ~= 'active' then return {'gone'} end
local note = viewer ~= '' and redis.call('HGET', ended, viewer)
return {'found', note or '', unpack(redis.call('HGETALL', group))}
