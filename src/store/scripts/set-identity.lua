-- Gives Redis the identity `id`, unless it has one. If `accepted` is not empty, an operator accepts the data: stores a count, one more
-- than `accepted` (which the caller read) and than the stored count, and `id`, which the data replaces. The data keeps its own id.
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
