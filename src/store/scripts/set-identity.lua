-- Stores the identity `id` if Redis has no identity. If `accepted` is not empty, records that an operator accepts the
-- data of this Redis in place of the data with the identity `id`. The identity of this Redis then stays, and the script
-- stores `id` as the replaced identity. `accepted` is the number of acceptances that the caller read. The new number is
-- greater than `accepted` and than the stored number.
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
