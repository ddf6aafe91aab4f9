-- Records the days on which groups were last resolved. Each group has three extra arguments: the id, the team id, and
-- the day in days since 1970. Skips deleted groups and unreadable records. Changes no version, and writes no event.
-- Returns `gone` if the environment is not active. Otherwise returns `noted`.
if redis.call('HGET', environment, 'state') ~= 'active' then return {'gone', nowText} end
local today = math.floor(now / 86400000)
for i = extra, #ARGV, 3 do
  local group = string.sub(environment, 1, -12) .. 'group:' .. ARGV[i]
  -- Use `pcall`, so that the script continues with the next group after an unreadable record.
  local found = redis.pcall('HMGET', group, 'g', 'l')
  local day = math.min(tonumber(ARGV[i + 2]), today)
  if found[1] == ARGV[i + 1] and (tonumber(found[2] or '') or 0) < day then
    redis.call('HSET', group, 'l', string.format('%.0f', day))
  end
end
return {'noted', nowText}
