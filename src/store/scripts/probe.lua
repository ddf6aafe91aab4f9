-- Has no effect (see `PROBE_CHANGE`). Returns `done`.
redis.call('SET', key, '1', 'XX')
return {'done', nowText}
