-- Notes that an operator accepts the data, in place of the data with `id`, and one time more often than `accepted`, which the
-- caller has read, and than the data says. The data keeps its id; data without one gets `id`. Answers what is there now.
local found, count = string.match(redis.call('GET', key) or '', '^%d+ (%x+) ?(%d*)')
local times = math.max(tonumber(accepted), tonumber(count) or 0) + 1
local text = layout .. ' ' .. (found or id) .. ' ' .. string.format('%.0f', times) .. ' ' .. id
redis.call('SET', key, text)
return {'done', nowText, text}
