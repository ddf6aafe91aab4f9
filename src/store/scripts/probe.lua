-- A change without effect: Redis neither replicates it nor writes it to disk. Redis refuses it like other changes: if memory is
-- full, if it cannot write to disk, if it is a replica, or if it has too few replicas.
redis.call('SET', key, '1', 'XX')
return {'done', nowText}
