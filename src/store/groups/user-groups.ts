import type { ChangeBy } from "../../domain/audit.ts";
import { DAY_MS } from "../../domain/durations.ts";
import { type Environment, TEAM_IDS } from "../../domain/environment.ts";
import {
  type ChangeOutcome,
  EnvironmentNotFound,
  TokenNotFound,
  TokenReplaced,
  UserGroupNotFound,
  ViewerSessionEnded,
} from "../../domain/errors.ts";
import type { UserGroupStore } from "../../domain/store.ts";
import { newUserGroupToken } from "../../domain/token.ts";
import type { Rotation } from "../../domain/user-group.ts";
import type { ViewerSessionStore } from "../../domain/viewer-session.ts";
import { changeEnvironment } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { digest, tokenDigest } from "../encryption.ts";
import { environmentKey, groupKey, revokedSessionsKey, tokensKey } from "../keys.ts";
import { afterChange, integerOf, isEmpty, readRecord, recordFromAnswer } from "../records.ts";
import { RESOLVE_SESSION, RESOLVE_TOKEN, REVOKE_TOKENS, ROTATE_TOKEN, UPDATE_GROUP, WRITE_GROUP } from "../scripts.ts";
import {
  changeArgs,
  changedFields,
  digestOf,
  etagOf,
  FIELD,
  type GroupAnswer,
  type GroupDeps,
  generationOf,
  groupFromRecord,
  msOf,
  needsClock,
  setToken,
  suspensionOf,
  targetArgs,
  viewerFromRecord,
} from "./group-record.ts";

/** The time for which the store recognizes a retry by its request id, in milliseconds from the first call. */
export const REQUEST_TTL_MS = DAY_MS;

/** The length of the stored digest of a viewer id, in characters. These digests must be unique in a group. */
const VIEWER_CHARACTERS = 16;

export function redisUserGroups(deps: GroupDeps): UserGroupStore & ViewerSessionStore {
  const { client, cipher, audit } = deps;

  const read = (number: number, providedId: string) => client.run("get", "hgetall", [groupKey(number, providedId)]);

  /** Reads a group with HGETALL. If `needsClock` returns true, uses `READ`, which takes more CPU time of Redis. */
  const readGroup = async (number: number, providedId: string, outcome?: ChangeOutcome): Promise<GroupAnswer> => {
    const key = groupKey(number, providedId);
    const record = await client.run("get", "hgetall", [key], outcome);
    const now = Date.now();
    if (!needsClock(record, now)) return { record, providedId, now };
    return { ...(await readRecord(client, "get", key, outcome)), providedId };
  };

  /** Replaces `RESOLVE_TOKEN` while the slot is migrating, because Redis then accepts single commands only. */
  const resolveByCommands = async (number: number, bucket: string, field: string): Promise<string[]> => {
    if (!(await isActive(client, number))) return ["gone"];
    const [id] = await client.run("resolve", "hmget", [bucket, field]);
    if (typeof id !== "string") return ["missing"];
    return ["found", String(Date.now()), id, ...Object.entries(await read(number, id)).flat()];
  };

  /** Finds the group of a token. Also checks the record, because the index may be outdated. @throws TokenNotFound */
  const find = async ({ number }: Environment, token: string): Promise<GroupAnswer> => {
    const digest = digestOf(token);
    const [tokens, field] = [tokensKey(number, digest), digest.slice(2)];
    const args = { environment: environmentKey(number), tokens, field };
    const whileMoving = () => resolveByCommands(number, tokens, field);
    const answer = await client.ask("resolve", RESOLVE_TOKEN, args, { whileMoving });
    const [state, , providedId = ""] = answer;
    if (state === "gone") throw new EnvironmentNotFound();
    const { record, now } = recordFromAnswer(answer, 3);
    if (record[FIELD.digest] === digest) return { providedId, record, now };
    const isPrevious = record[FIELD.graceDigest] === digest && integerOf(record, FIELD.graceUntil) > now;
    if (!isPrevious) throw new TokenNotFound();
    return { providedId, record, now, isPrevious };
  };

  const create: UserGroupStore["getOrCreate"] = async (environment, group, by) => {
    const { providedId } = group;
    const token = newUserGroupToken();
    const digest = tokenDigest(token);
    const fields = changedFields(group);
    fields.names.push("token");
    setToken(fields, cipher.encrypt(environment, token, digest));
    const answer = await changeEnvironment({ client, audit, environment, by }, "create", WRITE_GROUP, {
      id: providedId,
      expectedVersion: "",
      digest,
      graceMs: 0,
      unlessExpired: false,
      teamIds: TEAM_IDS,
      ...changeArgs(fields),
    });
    const [outcome, clock, version = "", teamText] = answer;
    if (outcome === "changed") {
      const existing = { ...recordFromAnswer(answer), providedId };
      return { group: groupFromRecord(existing, environment, cipher), created: false };
    }
    const now = Number(clock);
    const [time, teamId] = [msOf(Number(version)), Number(teamText)];
    const times = { createTime: time, updateTime: time, tokenCreateTime: time };
    const { expireTime } = group;
    const suspension = suspensionOf(expireTime === undefined ? {} : { [FIELD.expireTime]: String(expireTime) }, now);
    const etag = etagOf(teamId, version);
    return { group: { ...group, ...times, token, teamId, etag, suspension }, created: true };
  };

  return {
    async get(environment, providedId) {
      const found = await readGroup(environment.number, providedId);
      if (isEmpty(found.record)) throw new UserGroupNotFound();
      return groupFromRecord(found, environment, cipher);
    },

    async getOrCreate(environment, group, by) {
      const found = await readGroup(environment.number, group.providedId, "not_made");
      if (isEmpty(found.record)) return create(environment, group, by);
      return { group: groupFromRecord(found, environment, cipher), created: false };
    },

    async update(environment, providedId, change, etag, by) {
      const answer = await changeEnvironment({ client, audit, environment, by }, "update", UPDATE_GROUP, {
        id: providedId,
        etag,
        keyIds: cipher.keyIdList,
        ...changeArgs(changedFields(change)),
      });
      const dropped = Number(answer[2]);
      if (dropped > 0) audit.onDropped(environment, dropped);
      const changed = { ...recordFromAnswer(answer, 3), providedId };
      return afterChange(() => groupFromRecord(changed, environment, cipher));
    },

    async rotate(environment, rotation, by) {
      const rotated = await rotate(deps, environment, rotation, { by });
      return afterChange(() => groupFromRecord(rotated, environment, cipher));
    },

    async resolve(environment, token) {
      return viewerFromRecord(await find(environment, token));
    },

    async sessionSubject(environment, target) {
      const found =
        target.by === "token"
          ? await find(environment, target.token)
          : await readGroup(environment.number, target.providedId);
      if (isEmpty(found.record))
        throw (await isActive(client, environment.number)) ? new UserGroupNotFound() : new EnvironmentNotFound();
      return { viewer: viewerFromRecord(found), generation: generationOf(found.record) };
    },

    async resolveSession(environment, { providedId, teamId, generation, viewerId }) {
      const { number } = environment;
      const [group, ended] = [groupKey(number, providedId), revokedSessionsKey(number, teamId)];
      const args = { environment: environmentKey(number), group, ended, viewer: viewerDigest(viewerId) };
      const whileMoving = async () => {
        if (!(await isActive(client, number))) return ["gone"];
        const [note] = await client.run("resolve-session", "hmget", [ended, args.viewer]);
        return ["found", String(Date.now()), note ?? "", ...Object.entries(await read(number, providedId)).flat()];
      };
      const answer = await client.ask("resolve-session", RESOLVE_SESSION, args, { whileMoving });
      if (answer[0] === "gone") throw new EnvironmentNotFound();
      const { record, now } = recordFromAnswer(answer, 3);
      if (isEmpty(record)) throw new ViewerSessionEnded();
      const first = Math.max(generationOf(record, "firstGeneration"), Number.parseInt(answer[2] || "0", 10));
      // Each revocation of sessions raises the generation of the group. If the generation of the session is later than
      // the generation of the group, Redis has lost a revocation. Redis may also have lost a revocation of this
      // session, so the session is rejected.
      const isLive = generation >= first && generation <= generationOf(record);
      if (!isLive || integerOf(record, FIELD.teamId) !== teamId) throw new ViewerSessionEnded();
      return viewerFromRecord({ record, providedId, now });
    },
  };
}

interface RotationOptions {
  readonly by: ChangeBy;
  /** Whether Redis commits the change even if its memory is full. Default: false. */
  readonly isRevocation?: boolean;
}

/** Implements `UserGroupStore.rotate` and `UserGroupAdminStore.revokeTokens`. */
export async function rotate(
  { cipher, ...deps }: GroupDeps,
  environment: Environment,
  { target, graceMs, requestedGraceMs, requestId }: Rotation,
  { by, isRevocation = false }: RotationOptions,
): Promise<GroupAnswer> {
  const token = newUserGroupToken();
  const newDigest = tokenDigest(token);
  const { text, keyId } = cipher.encrypt(environment, token, newDigest);
  const presented = target.by === "id" ? target.providedId : target.token;
  // If the grace period is the default of the RPC, `parameters` does not contain it, because the default may change
  // before a retry. Redis gets digests of the request id and the parameters, because callers may choose secrets as
  // request ids.
  const parameters = isRevocation ? ["revoke", presented, graceMs] : [target.by, presented, requestedGraceMs ?? null];
  const answer = await changeEnvironment(
    { ...deps, environment, by },
    "rotate",
    isRevocation ? REVOKE_TOKENS : ROTATE_TOKEN,
    {
      ...targetArgs(target),
      digest: newDigest,
      tokenText: text,
      keyId,
      graceMs,
      requestDigest: requestId ? digest(requestId) : "",
      parameters: requestId ? digest(JSON.stringify(parameters)) : "",
      requestTtlMs: REQUEST_TTL_MS,
    },
  );
  const [, , madeDigest, providedId = ""] = answer;
  const rotated = recordFromAnswer(answer, 4);
  // If the call is a retry, another rotation may have replaced the token of the first call. A revocation still
  // succeeds.
  if (!isRevocation && madeDigest !== rotated.record[FIELD.digest]) throw new TokenReplaced();
  return { ...rotated, providedId };
}

async function isActive(client: StoreClient, number: number): Promise<boolean> {
  const [state] = await client.run("environment", "hmget", [environmentKey(number), "state"]);
  return state === "active";
}

/** Returns the stored form of a viewer id. Returns an empty text if the viewer id is undefined. */
export function viewerDigest(viewerId: string | undefined): string {
  return viewerId === undefined ? "" : digest(viewerId).slice(0, VIEWER_CHARACTERS);
}
