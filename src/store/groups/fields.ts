import { KEY } from "../keys.ts";

/**
 * Names of the fields of a group's hash; the Lua that several scripts share is below them. They are one letter long because
 * every group holds them. Numbers are decimal, times milliseconds since 1970 by Redis' clock.
 */
export const FIELD = {
  /** Only in answers of scripts and in what is kept for a request id: a group's key ends with it. */
  providedId: "i",
  teamId: "g",
  name: "n",
  /** Digest of the current token. */
  digest: "d",
  /** Id of the key in `TOKEN_KEYS` that the token is encrypted under. */
  keyId: "k",
  /** The current token, packed and encrypted, when it has the shape of ours. */
  token: "t",
  createTime: "c",
  /** Missing: the same as `createTime`. */
  updateTime: "u",
  /** Missing: the same as `createTime`. An imported token has the snapshot time of its import, which may be earlier. */
  tokenCreateTime: "r",
  /** Digest of the token that is on its grace. */
  graceDigest: "x",
  graceUntil: "y",
  /**
   * Only where the partition's index lacks the current token: the partition in which the token has its entry (`KEY.foreign`), a
   * colon and the time of that entry; 0: the entry must not be removed.
   */
  entry: "e",
  /** The generation of new viewer sessions: the time when sessions of the group were last ended. Missing: never. */
  generation: "s",
  /** The oldest generation of viewer sessions that is still valid; missing: all are. */
  firstGeneration: "b",
  /** Only in what is kept for a request id: digest of the request's parameters. */
  fingerprint: "q",
  /** Only in answers of scripts: digest of the token that the first rotation under a request id made. */
  madeDigest: "w",
  /** Only in answers of scripts: `entry` of the token that a group had before, a colon and its digest; or nothing. */
  endedEntry: "v",
  /** Only in answers of scripts: how many audit events were dropped. */
  dropped: "z",
} as const;

/** Values of a group's hash that are kept in pieces: `m0`, `m1` and so on. */
export const PIECES = {
  /** JSON text. */
  mapping: "m",
  /** JSON text; no piece: there are none. */
  properties: "p",
  /** The current token, encrypted whole, when it is of another shape than ours. */
  foreignToken: "f",
} as const;

/** How many characters of a token's digest the index holds: enough to tell a partition's tokens apart. */
const INDEXED_CHARACTERS = 14;

/** The field of a token in the index, from its digest. */
export const INDEXED = `local function indexed(digest) return string.sub(digest, 1, ${INDEXED_CHARACTERS}) end
`;

/** For how long a token is still on its grace in a group, in milliseconds; 0 or less: it is not. Fails on damaged times. */
export const GRACE = `local function grace_left(key, digest)
  if redis.call('HGET', key, '${FIELD.graceDigest}') ~= digest then return 0 end
  return tonumber(redis.call('HGET', key, '${FIELD.graceUntil}') or '0') - now
end
`;

/** The id of the group that an entry names, and the one that the entry of a foreign token with a digest names, if any. */
export const ENTRY = `local function holder_of(entry)
  return string.sub(entry, (string.find(entry, ':', 1, true) or 0) + 1)
end
local function holder_by(prefix, digest)
  local entry = redis.call('GET', prefix .. '${KEY.foreign}' .. digest)
  return entry and holder_of(entry)
end
`;

/**
 * The next generation of a group's viewer sessions. Fails on a damaged one. Generations are times, not counts: should Redis
 * lose the last one, in a failover or by a backup, a count would give it again, and its sessions would live on.
 */
export const GENERATION = `local function next_generation(key)
  local before = tonumber(redis.call('HGET', key, '${FIELD.generation}') or '0')
  return string.format('%.0f', math.max(now, before + 1.0))
end
`;

/**
 * Gives a group another token, and leaves the token that it had a grace in milliseconds, or none. The caller sets the fields
 * that hold the token itself and its times. A token whose grace here is over may be on its grace in another group by now.
 * Without a grace, the group's viewer sessions end with the token. Answers what `endedEntry` holds. Goes behind `INDEXED`.
 */
export const REPLACE = `${GENERATION}local function replace(prefix, key, id, digest, is_indexed, grace)
  local tokens, graces = prefix .. '${KEY.tokens}', prefix .. '${KEY.grace}'
  local old, graced = redis.call('HGET', key, '${FIELD.digest}'), redis.call('HGET', key, '${FIELD.graceDigest}')
  local entry = redis.call('HGET', key, '${FIELD.entry}')
  local generation = next_generation(key)
  redis.call('HLEN', tokens)
  if graced and redis.call('GET', graces .. graced) ~= id then graced = nil end
  if grace ~= '0' then redis.call('EXISTS', graces .. old) end
  redis.call('HSET', key, '${FIELD.digest}', digest)
  if is_indexed then redis.call('HSET', tokens, indexed(digest), id) end
  redis.call('HDEL', tokens, indexed(old))
  if graced then redis.call('DEL', graces .. graced) end
  if grace ~= '0' then
    redis.call('SET', graces .. old, id, 'PX', grace)
    redis.call('HSET', key, '${FIELD.graceDigest}', old, '${FIELD.graceUntil}', string.format('%.0f', now + grace))
  else
    redis.call('HDEL', key, '${FIELD.graceDigest}', '${FIELD.graceUntil}')
    redis.call('HSET', key, '${FIELD.generation}', generation, '${FIELD.firstGeneration}', generation)
  end
  redis.call('HDEL', key, '${FIELD.token}', '${FIELD.entry}')
  return entry and entry .. ':' .. old or ''
end
`;

/** Removes the pieces of a value from one of them on; the numbers of pieces have no gaps. */
export const DROP = `local function drop(key, field, from)
  while redis.call('HDEL', key, field .. string.format('%.0f', from)) == 1 do from = from + 1 end
end
`;

/**
 * The time of a change, which is later than that of the one before, so that no
 * group has one etag twice; `before` is nil when the record is not whole.
 */
export const CHANGED = `local function last_change(key)
  return redis.call('HGET', key, '${FIELD.updateTime}') or redis.call('HGET', key, '${FIELD.createTime}')
end
local function after(before)
  if now > before then return stamp end
  return string.format('%.0f', before + 1.0)
end
`;
