-- A change that changes nothing: it is neither replicated nor written to disk. Redis refuses it as it refuses every other
-- change: if its memory is full, if it cannot write to disk, if it is a replica or has too few replicas.
redis.call('SET', key, '1', 'XX')
return {'done', nowText}
