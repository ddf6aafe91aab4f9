-- Reads up to `count` events of an environment in the order of their ids. If `cursorTime` is empty, reads the events
-- since the time `cursor` in microseconds. Otherwise, reads the events after the event with the id `cursor`. If this
-- event is not older than `retentionMs`, it must still exist. If this event is older, `cursorTime` must not be older
-- than `retentionMs`. `cursorTime` is a time in milliseconds at which no event with a higher id than `cursor` existed.
-- Reads at most `maxDays` days. `from` is the earliest time to read, in microseconds.
-- Returns one of
-- - `gone`: the environment is not active
-- - `expired`: events after the event `cursor` were removed or lost
-- - `events`, an id, a time, and the events. Each event consists of its id, and of 8 fields with their values. The next
--   call passes the returned id as `cursor`, and the returned time as `from`. If no more events exist, the returned
--   time is empty
local prefix = string.sub(environment, 1, -12)
local record = redis.call('HMGET', environment, 'state', 'version', 'trimmed', 'create_time')
if record[1] ~= 'active' then return {'gone', nowText} end
local last, trimmed = tonumber(record[2] or '0') or 0, tonumber(record[3] or '0') or 0
local oldest = math.max(now - retentionMs, tonumber(record[4] or '0') or 0) * 1000.0
local perDay = 86400000000.0
local function keyOf(stream, id) return prefix .. stream .. ':' .. string.format('%.0f', math.floor(id / perDay)) end
local function read(stream, first, final, limit)
  return redis.call('XRANGE', keyOf(stream, first), string.format('%.0f', first), string.format('%.0f', final), 'COUNT', limit)
end
local position = tonumber(cursor)
if cursorTime == '' then
  position = math.min(math.max(position, oldest, trimmed) - 1.0, last)
else
  -- If the daily limit `maxUpdates` removed updates, the ids of these updates are lower than `trimmed`.
  if position > last or position < trimmed - 1.0 then return {'expired', nowText} end
  if position < last and position >= oldest then
    -- A failover can lose the last events. Later events can then get lower ids than the lost events, so the event
    -- `cursor` must exist.
    if #read('events', position, position, '1') + #read('updates', position, position, '1') == 0 then
      return {'expired', nowText}
    end
  elseif position < last and tonumber(cursorTime) * 1000.0 < oldest then
    return {'expired', nowText}
  end
end
local answer, found, limit, days = {'events', nowText, '', ''}, 0, tonumber(count), 0
local first = math.max(position + 1.0, oldest, tonumber(from))
while first <= last and found < limit and days < tonumber(maxDays) do
  days = days + 1
  local events, updates = read('events', first, last, count), read('updates', first, last, count)
  local e, u = 1, 1
  while (events[e] or updates[u]) and found < limit do
    local event = events[e]
    if not event or updates[u] and tonumber(string.match(updates[u][1], '%d+')) < tonumber(string.match(event[1], '%d+')) then
      event, u = updates[u], u + 1
    else
      e = e + 1
    end
    found = found + 1
    answer[#answer + 1] = string.match(event[1], '%d+')
    for i = 1, 16 do answer[#answer + 1] = event[2][i] or '' end
  end
  first = (math.floor(first / perDay) + 1.0) * perDay
end
local hasMore = found == limit or first <= last
if hasMore then answer[4] = string.format('%.0f', first) end
answer[3] = hasMore and found > 0 and answer[#answer - 16] or string.format('%.0f', math.max(position, last))
return answer
