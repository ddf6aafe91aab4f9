-- Notes Redis' clock, which never goes back. Answers what is there now.
local found = redis.call('GET', key) or '0'
if tonumber(found) < now then
  found = nowText
  redis.call('SET', key, found)
end
return {'done', nowText, found}
