-- Reads the webhooks of an environment. Returns `found`, Redis' clock, and for each webhook its id, the length of its
-- record, and the record.
local prefix = string.sub(webhooks, 1, -9)
-- include: webhooks
local answer = {'found', nowText}
for _, id in ipairs(redis.call('ZRANGEBYLEX', webhooks, '-', '+')) do
  local at = #answer
  answer[at + 1], answer[at + 2] = id, ''
  appendRecord(answer, webhookKey(id))
  answer[at + 2] = string.format('%.0f', #answer - at - 2)
end
return answer
