-- Reads a hash. Returns `found`, Redis' clock and the record. The record is empty if the hash does not exist.
return {'found', nowText, unpack(redis.call('HGETALL', key))}
