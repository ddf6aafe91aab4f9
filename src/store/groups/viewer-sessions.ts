import type { ChangeBy } from "../../domain/audit.ts";
import type { Environment } from "../../domain/environment.ts";
import { ViewerSessionEnded } from "../../domain/errors.ts";
import { MAX_STORE_CALL_MS } from "../../domain/store.ts";
import type { Viewer } from "../../domain/user-group.ts";
import {
  MAX_ENDED_VIEWERS,
  MAX_SESSION_MS,
  type SessionOwner,
  type SessionReference,
} from "../../domain/viewer-session.ts";
import { auditedScript } from "../audit/audit.ts";
import { digest } from "../encryption/encryption.ts";
import { KEY, locateGroup } from "../keys.ts";
import { integerOf, recordFromAnswer } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { readScript } from "../redis/script.ts";
import { FIELD, GENERATION } from "./fields.ts";
import { type GroupDeps, generationOf, requireDone, viewerFromRecord } from "./group-record.ts";

/** How long ended sessions of a viewer are noted, in milliseconds: until none is used by a call; clocks may differ by a minute. */
const KEPT_MS = MAX_SESSION_MS + MAX_STORE_CALL_MS + 60_000;

/** How many characters of a viewer's digest are kept: enough to tell those of a group apart. */
const VIEWER_CHARACTERS = 16;

/**
 * Reads a group, and the note in the hash `ended` about a viewer, whose digest is empty when nobody is named. Answers nothing;
 * or `found`, Redis' clock, the note or an empty text, and the record.
 */
const RESOLVE_SESSION = readScript("ugResolveSession", {
  args: ["ended", "viewer"],
  lua: `local record = redis.call('HGETALL', key)
if #record == 0 then return {} end
local note = viewer ~= '' and redis.call('HGET', ended, viewer)
return {'found', stamp, note or '', spread(record)}`,
});

/**
 * Ends the viewer sessions of a group, or only those of the viewer with a digest: `mostViewers` may be noted at a time. The
 * update time stays, because nothing changes that callers see of the group.
 * Answers `missing`; `unreadable` when the record is not whole; `too-many`; or `done`.
 */
export const END_SESSIONS = auditedScript("ugEndSessions", {
  evenIfFull: true,
  args: ["prefix", "id", "viewer", "mostViewers", "keptMs"],
  lua: `${GENERATION}
local team_id = redis.call('HGET', key, '${FIELD.teamId}')
if not team_id then return {redis.call('EXISTS', key) == 1 and 'unreadable' or 'missing', stamp} end
local ended, generation = prefix .. '${KEY.endedSessions}' .. team_id, next_generation(key)
local count = redis.call('HLEN', ended)
if viewer == '' then
  redis.call('HSET', key, '${FIELD.generation}', generation, '${FIELD.firstGeneration}', generation)
  redis.call('DEL', ended)
else
  if count >= tonumber(mostViewers) and redis.call('HEXISTS', ended, viewer) == 0 then
    local notes = redis.call('HGETALL', ended)
    for i = 1, #notes, 2 do
      local noted = tonumber(string.match(notes[i + 1], ':(%d+)$') or '0')
      if now - noted > tonumber(keptMs) then count = count - redis.call('HDEL', ended, notes[i]) end
    end
    if count >= tonumber(mostViewers) then return {'too-many', stamp} end
  end
  redis.call('HSET', key, '${FIELD.generation}', generation)
  redis.call('HSET', ended, viewer, generation .. ':' .. stamp)
  redis.call('PEXPIRE', ended, keptMs)
end
audit(id, 'viewer_sessions')
return {'done', stamp}`,
});

/** As `ViewerSessionStore.resolveSession`. */
export async function resolveSession(
  client: StoreClient,
  environment: Environment,
  { providedId, teamId, generation, viewerId }: SessionReference,
): Promise<Viewer> {
  const { prefix, key } = locateGroup(environment, providedId);
  const args = { key, ended: `${prefix}${KEY.endedSessions}${teamId}`, viewer: viewerDigest(viewerId) };
  const answer = await client.ask("resolve-session", RESOLVE_SESSION, args);
  if (answer.length === 0) throw new ViewerSessionEnded();
  const record = recordFromAnswer(answer, 3);
  record[FIELD.providedId] = providedId;
  const first = Math.max(generationOf(record, "firstGeneration"), Number.parseInt(answer[2] || "0", 10));
  // A generation later than the group's: Redis has lost an ending of sessions, and with it which sessions have ended.
  const isLive = generation >= first && generation <= generationOf(record);
  if (!isLive || integerOf(record, FIELD.teamId) !== teamId) throw new ViewerSessionEnded();
  return viewerFromRecord(record, environment, false);
}

/** As `UserGroupAdminStore.endSessions`. */
export async function endSessions(
  { client, audit }: GroupDeps,
  environment: Environment,
  { providedId, viewerId }: SessionOwner,
  by: ChangeBy,
): Promise<void> {
  const { prefix, key } = locateGroup(environment, providedId);
  const args = { key, prefix, id: providedId, viewer: viewerDigest(viewerId) };
  const bounds = { mostViewers: MAX_ENDED_VIEWERS, keptMs: KEPT_MS };
  requireDone(
    "end-sessions",
    await client.change("end-sessions", END_SESSIONS, { ...args, ...bounds, ...audit.ofPartition(prefix, by) }),
  );
}

function viewerDigest(viewerId: string | undefined): string {
  return viewerId === undefined ? "" : digest(viewerId).slice(0, VIEWER_CHARACTERS);
}
