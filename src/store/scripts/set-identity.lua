-- If the data has no identity, stores `id` as its identity.
-- If `accepted` is not empty, an operator has accepted the data in Redis as a replacement for the data with the
-- identity `id`. In this case, stores `id` as the replaced identity, and counts the acceptance. `accepted` is the count
-- that the caller read. The new count is greater than `accepted`, and greater than the stored count.
-- Returns `done` and the stored text.
local text = redis.call('GET', key)
if accepted == '' and text then return {'done', nowText, text} end
local found, count = string.match(text or '', '^%d+ (%x+) ?(%d*)')
text = layout .. ' ' .. (found or id)
if accepted ~= '' then
  local times = math.max(tonumber(accepted), tonumber(count) or 0) + 1
  text = text .. ' ' .. string.format('%.0f', times) .. ' ' .. id
end
redis.call('SET', key, text)
return {'done', nowText, text}
