-- Reads the webhooks of an environment. Returns `found`, Redis' clock, and for each webhook its id, the length of its
-- record, and the record.
local prefix = string.sub(webhooks, 1, -9)
-- include: webhooks
local answer = {'found', nowText}
for _, id in ipairs(redis.call('ZRANGEBYLEX', webhooks, '-', '+')) do
  local record = redis.call('HGETALL', webhookKey(id))
  answer[#answer + 1], answer[#answer + 2] = id, string.format('%.0f', #record)
  for _, text in ipairs(record) do answer[#answer + 1] = text end
end
return answer
