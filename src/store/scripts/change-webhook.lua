-- Changes a webhook, and clears the record of its failures. The extra arguments are fields and values to set. If
-- `secret` is not empty, `secret` becomes the current secret. Each replaced secret stays valid until `graceMs` after
-- its replacement. Only the newest `maxSecrets` secrets stay. If `since` is not empty, moves the cursor back to this
-- time in microseconds.
-- Returns `WebhookNotFound` if the webhook does not exist. Returns `same` and the record if no field, no secret and no
-- cursor changed. Otherwise returns `done` and the record.
-- include: webhooks
local found = redis.call('HMGET', webhook, 'secrets', 'cursor')
if not found[1] then return {'WebhookNotFound', nowText} end
local fields, names = {}, {}
local function set(name, value)
  fields[#fields + 1], fields[#fields + 2] = name, value
  names[#names + 1] = name
end
for i = extra, #ARGV, 2 do
  if redis.call('HGET', webhook, ARGV[i]) ~= ARGV[i + 1] then set(ARGV[i], ARGV[i + 1]) end
end
if secret ~= '' then
  local secrets = {secret}
  for text, expires in string.gmatch(found[1], '([^,:]+):?([^,]*)') do
    expires = tonumber(expires) or now + graceMs
    if expires > now and #secrets < tonumber(maxSecrets) then
      secrets[#secrets + 1] = text .. ':' .. string.format('%.0f', expires)
    end
  end
  set('secrets', table.concat(secrets, ','))
  names = {'secret'}
elseif since ~= '' and tonumber(since) <= (tonumber(found[2]) or 0) then
  set('cursor', since)
  fields[#fields + 1], fields[#fields + 2] = 'cursor_time', ''
end
if #fields > 0 then
  audit('w:' .. id, table.concat(names, ','))
  redis.call('HSET', webhook, 'update_time', nowText, unpack(fields))
end
forgetFailures(webhook)
return {#fields > 0 and 'done' or 'same', nowText, unpack(redis.call('HGETALL', webhook))}
