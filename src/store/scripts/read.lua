-- Reads a hash. Returns `found`, the time by Redis' clock and the record. The record is empty if the hash does not
-- exist.
return {'found', nowText, unpack(redis.call('HGETALL', key))}
