-- Gives Redis the identity `id` unless it has one. If `accepted` is not empty, notes instead that an operator accepts the data, in
-- place of the data with `id`, and one time more often than `accepted`, which the caller has read, and than the data says. The data
-- keeps its id. Answers `done` and what is there now.
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
