-- Stores the identity `id` if Redis has no identity. If `accepted` is not empty, an operator accepts the data of this
-- Redis. This data then replaces the data with the identity `id`. `accepted` is the number of acceptances that the
-- caller read. The identity of this Redis stays. The script stores `id` as the identity of the replaced data, and a new
-- number of acceptances. This number is greater than `accepted` and than the stored number.
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
