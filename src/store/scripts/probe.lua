-- A change without effect: Redis neither replicates it nor writes it to disk. Redis refuses it like
-- other changes: if its memory is full, its disk fails, it is a replica, or it has too few replicas.
redis.call('SET', key, '1', 'XX')
return {'done', nowText}
