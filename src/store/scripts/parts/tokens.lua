-- The index of user group tokens: `tokens:BB` has the digests that begin with BB, without these two characters, and the ids of
-- their groups. Takes `prefix`. An entry only says where to look: the record of the group decides.

local function entryOf(digest)
  return prefix .. 'tokens:' .. string.sub(digest, 1, 2), string.sub(digest, 3)
end

local function holderOf(digest)
  local bucket, field = entryOf(digest)
  return redis.call('HGET', bucket, field)
end

-- Whether another group than `id` has a token, as its current one or in its grace period.
local function isTaken(digest, id)
  local holder = holderOf(digest)
  if not holder or holder == id then return false end
  local record = redis.call('HMGET', prefix .. 'group:' .. holder, 'd', 'x', 'y')
  return record[1] == digest or record[2] == digest and (tonumber(record[3] or '0') or 0) > now
end

-- The entries of a group for some digests, false among them is none. Buckets and fields in turn.
local function entriesOf(id, first, second)
  local entries = {}
  for _, digest in ipairs({first, second}) do
    if digest and holderOf(digest) == id then
      entries[#entries + 1], entries[#entries + 2] = entryOf(digest)
    end
  end
  return entries
end

local function removeEntries(entries)
  for i = 1, #entries, 2 do redis.call('HDEL', entries[i], entries[i + 1]) end
end

-- The entries that end when a group gets another token. `record`: its fields `d`, `x` and `s`.
local function endingEntries(id, record, digest, graceMs)
  local graced = record[2] and record[2] ~= digest and record[2]
  return entriesOf(id, graced, graceMs == '0' and record[1] ~= digest and record[1])
end

-- The next generation of a group's viewer sessions. Generations are times, not counts: if Redis loses the last one, in a
-- failover or by a backup, a count would give it again, and its sessions would live on.
local function nextGeneration(last)
  return string.format('%.0f', math.max(now, (tonumber(last or '0') or 0) + 1.0))
end

-- Gives a group another token. The one before it gets a grace period in milliseconds, or is revoked with the group's viewer
-- sessions. The caller removes `endingEntries`, and sets the fields that hold the token itself and its times.
local function replaceToken(key, id, record, digest, graceMs)
  local bucket, field = entryOf(digest)
  redis.call('HSET', bucket, field, id)
  if graceMs == '0' then
    local generation = nextGeneration(record[3])
    redis.call('HDEL', key, 'x', 'y')
    redis.call('HSET', key, 'd', digest, 's', generation, 'b', generation)
  else
    redis.call('HSET', key, 'd', digest, 'x', record[1], 'y', string.format('%.0f', now + graceMs))
  end
end
