-- Revokes API tokens with all their secrets. The extra arguments are the ids of the API tokens. If `pauseMs` is not
-- empty, API tokens of the environment cannot create or rotate API tokens during the next `pauseMs`.
-- Returns `done`, the number of revoked API tokens, and the digests of their secrets. If no API token exists and
-- `pauseMs` is empty, the first value is `none`.
-- include: api-tokens
local subjects, digests = {}, {}
for i = extra, #ARGV do
  local record = recordOf(keyOf(ARGV[i]))
  if record then
    subjects[#subjects + 1] = subjectOf(ARGV[i], record.role, record.display_name)
    for _, digest in ipairs(digestsOf(record)) do digests[#digests + 1] = digest end
  end
end
redis.call('HLEN', apiTokens)
for _, subject in ipairs(subjects) do audit(subject, '') end
if pauseMs ~= '' then redis.call('HSET', environment, 'issue_time', string.format('%.0f', now + pauseMs)) end
for i = extra, #ARGV do redis.call('DEL', keyOf(ARGV[i])) end
for _, digest in ipairs(digests) do
  redis.call('HDEL', apiTokens, digest)
  publish(digest)
end
return {(#subjects > 0 or pauseMs ~= '') and 'done' or 'none', nowText, string.format('%.0f', #subjects), unpack(digests)}
