-- Gives Redis the identity `id`, unless it has one. If `accepted` is not empty, an operator accepts the data of this Redis in place
-- of the data with `id`. The data keeps its own identity. The script stores `id` behind it, and a count of acceptances, which is
-- greater than the stored count and than `accepted`, the count that the caller read.
-- Returns `done` and the stored string.
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
