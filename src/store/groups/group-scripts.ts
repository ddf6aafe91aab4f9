import {
  EnvironmentFull,
  EtagMismatch,
  RecordUnreadable,
  RequestIdReused,
  TokenNotFound,
  TokenTaken,
  TooManyEndedViewers,
  UserGroupNotFound,
} from "../../domain/errors.ts";
import { isMalformedUserGroupToken } from "../../domain/token.ts";
import type { UserGroupTarget } from "../../domain/user-group.ts";
import { environmentScript } from "../audit.ts";
import { changeScript, readScript } from "../connection/script.ts";
import { keyMissing, tokenDigest } from "../encryption.ts";
import { groupKey, tokensKey } from "../keys.ts";
import deleteGroup from "../scripts/delete-group.lua" with { type: "text" };
import endSessions from "../scripts/end-sessions.lua" with { type: "text" };
import listIds from "../scripts/list-ids.lua" with { type: "text" };
import reencryptToken from "../scripts/reencrypt-token.lua" with { type: "text" };
import repairToken from "../scripts/repair-token.lua" with { type: "text" };
import resolveSession from "../scripts/resolve-session.lua" with { type: "text" };
import resolveToken from "../scripts/resolve-token.lua" with { type: "text" };
import rotateToken from "../scripts/rotate-token.lua" with { type: "text" };
import searchIds from "../scripts/search-ids.lua" with { type: "text" };
import updateGroup from "../scripts/update-group.lua" with { type: "text" };
import writeGroup from "../scripts/write-group.lua" with { type: "text" };

/*
 * The scripts for user groups. What each does and answers stands at its beginning. The arguments have their names here alone.
 */

export const RESOLVE_TOKEN = readScript("resolve-token", {
  keys: ["environment", "tokens"],
  args: ["field"],
  lua: resolveToken,
});

export const RESOLVE_SESSION = readScript("resolve-session", {
  keys: ["environment", "group", "ended"],
  args: ["viewer"],
  lua: resolveSession,
});

export const LIST_IDS = readScript("list-ids", {
  keys: ["ids"],
  args: ["from", "idPrefix", "count"],
  lua: listIds,
  singleKey: true,
});

export const SEARCH_IDS = readScript("search-ids", {
  keys: ["ids"],
  args: ["from", "idPrefix", "count", "contains"],
  lua: searchIds,
});

export const WRITE_GROUP = environmentScript("write-group", {
  keys: ["group", "ids", "tokens"],
  args: ["id", "expected", "digest", "graceMs", "firstTeamId", "teamIds", "changedFields", "removed"],
  lua: writeGroup,
  made: ["created", "done"],
});

export const UPDATE_GROUP = environmentScript("update-group", {
  keys: ["group"],
  args: ["id", "etag", "heldKeys", "changedFields", "removed"],
  lua: updateGroup,
  stream: "updates",
});

export const DELETE_GROUP = environmentScript("delete-group", {
  keys: ["target", "ids"],
  args: ["id", "old", "etag"],
  lua: deleteGroup,
  allowOom: true,
});

const rotation = {
  keys: ["target", "request", "tokens"],
  args: ["id", "old", "digest", "text", "keyId", "graceMs", "parameters", "keptRequestMs"],
  lua: rotateToken,
  made: ["done", "replayed"],
} as const;

export const ROTATE_TOKEN = environmentScript("rotate-token", rotation);

/** As `ROTATE_TOKEN`, to revoke a leaked token: it works even when Redis' memory is full. */
export const REVOKE_TOKENS = environmentScript("revoke-tokens", { ...rotation, allowOom: true });

export const END_SESSIONS = environmentScript("end-sessions", {
  keys: ["group"],
  args: ["id", "viewer", "mostViewers", "keptNotesMs"],
  lua: endSessions,
  allowOom: true,
});

export const REPAIR_TOKEN = changeScript("repair-token", {
  keys: ["environment", "group", "tokens"],
  args: ["id", "digest"],
  lua: repairToken,
});

export const REENCRYPT_TOKEN = changeScript("reencrypt-token", {
  keys: ["group"],
  args: ["digest", "was"],
  lua: reencryptToken,
  singleKey: true,
});

/** What these scripts refuse a change with. */
const REFUSALS: ReadonlyMap<string | undefined, new () => Error> = new Map<string, new () => Error>([
  ["missing", UserGroupNotFound],
  ["stale", EtagMismatch],
  ["taken", TokenTaken],
  ["full", EnvironmentFull],
  ["reused", RequestIdReused],
  ["too-many", TooManyEndedViewers],
]);

/** The answer of a script to a change of a group. @throws the error of a refusal; RecordUnreadable */
export function requireDone(operation: string, answer: readonly string[]): readonly string[] {
  const [state, , detail = ""] = answer;
  const Refusal = REFUSALS.get(state);
  if (Refusal) throw new Refusal();
  if (state === "unreadable") throw new RecordUnreadable(new Error(`${operation}: a record is not whole`), "not_made");
  if (state === "locked") throw keyMissing(detail, { outcome: "not_made" });
  return answer;
}

/** How scripts find the group of a target: by its id, or by the digest `old` that its token must have. @throws TokenNotFound */
export function targetArgs(number: number, target: UserGroupTarget) {
  if (target.by === "id") return { target: groupKey(number, target.providedId), id: target.providedId, old: "" };
  const old = digestOf(target.token);
  return { target: tokensKey(number, old), id: "", old };
}

/** The digest of a token that is looked for. @throws TokenNotFound when no group can have it */
export function digestOf(token: string): string {
  if (isMalformedUserGroupToken(token)) throw new TokenNotFound(true);
  return tokenDigest(token);
}

/** The answer to a change of the group of a target. @throws as `requireDone`; TokenNotFound */
export function requireFound(operation: string, target: UserGroupTarget, answer: readonly string[]): readonly string[] {
  if (answer[0] === "missing" && target.by === "token") throw new TokenNotFound();
  return requireDone(operation, answer);
}
