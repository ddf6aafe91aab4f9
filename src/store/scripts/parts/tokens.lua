-- The index of user group tokens (`tokensKey` in keys.ts). An entry may be outdated, so scripts must check the record
-- of the group. Input: `prefix`.

local function entryOf(digest)
  return prefix .. 'tokens:' .. string.sub(digest, 1, 2), string.sub(digest, 3)
end

local function holderOf(digest)
  local bucket, field = entryOf(digest)
  return redis.call('HGET', bucket, field)
end

-- Returns whether a group other than `id` has the token with this digest, either as its current token or as a token in
-- its grace period.
local function isTaken(digest, id)
  local holder = holderOf(digest)
  if not holder or holder == id then return false end
  local record = redis.call('HMGET', prefix .. 'group:' .. holder, 'd', 'x', 'y')
  return record[1] == digest or record[2] == digest and (tonumber(record[3] or '0') or 0) > now
end

-- Returns the index entries of a group for up to two digests. The list contains the hash key and the field of each
-- entry. Skips a digest that is `false`.
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

-- Returns the index entries to remove when a group gets another token. `record` is a list of the values of the fields
-- `d`, `x` and `s`.
local function obsoleteEntries(id, record, digest, graceMs)
  local previous = record[2] and record[2] ~= digest and record[2]
  return entriesOf(id, previous, graceMs == '0' and record[1] ~= digest and record[1])
end

-- Returns the next generation of a group's viewer sessions. A generation is a time, not a counter. After a loss of
-- data, a counter would return an old generation again, and revoked sessions would become valid.
local function nextGeneration(last)
  return string.format('%.0f', math.max(now, (tonumber(last or '0') or 0) + 1.0))
end

-- Replaces the token of a group. The replaced token gets a grace period of `graceMs`. If `graceMs` is 0, the replaced
-- token and the viewer sessions of the group are revoked. The caller must remove `obsoleteEntries`, and set the fields
-- of the encrypted token and of the times.
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
