import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, TEAM_IDS } from "../../domain/environment.ts";
import { EnvironmentNotFound, TokenNotFound, UserGroupNotFound, ViewerSessionEnded } from "../../domain/errors.ts";
import { MAX_STORE_CALL_MS, type UserGroupStore } from "../../domain/store.ts";
import { newUserGroupToken } from "../../domain/token.ts";
import {
  MAX_ENDED_VIEWERS,
  MAX_SESSION_MS,
  type SessionOwner,
  type ViewerSessionStore,
} from "../../domain/viewer-session.ts";
import { changeEnvironment } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { digest, tokenDigest } from "../encryption.ts";
import { environmentKey, groupKey, idsKey, revokedSessionsKey, tokensKey } from "../keys.ts";
import { afterChange, integerOf, isEmpty, recordFromAnswer, type StoredRecord } from "../records.ts";
import { END_SESSIONS, RESOLVE_SESSION, RESOLVE_TOKEN, UPDATE_GROUP, WRITE_GROUP } from "../scripts.ts";
import {
  changeArgs,
  changedFields,
  digestOf,
  etagOf,
  FIELD,
  type GroupDeps,
  generationOf,
  groupFromRecord,
  msOf,
  setToken,
  viewerFromRecord,
} from "./group-record.ts";
import { rotate } from "./rotations.ts";

/**
 * Time for which Redis stores the revocation of a viewer's sessions, in milliseconds. It covers the longest session, the longest
 * call, and a difference of 60 s between clocks.
 */
const NOTES_TTL_MS = MAX_SESSION_MS + MAX_STORE_CALL_MS + 60_000;

/** Stored length of a viewer's digest. It must be unique in a group. */
const VIEWER_CHARACTERS = 16;

interface Found {
  readonly providedId: string;
  readonly record: StoredRecord;
  /** Whether the presented token is in its grace period. */
  readonly isPrevious?: boolean;
}

/** User groups in Redis. */
export function redisUserGroups(deps: GroupDeps): UserGroupStore & ViewerSessionStore {
  const { client, cipher, audit } = deps;

  const read = (number: number, providedId: string) => client.run("get", "hgetall", [groupKey(number, providedId)]);

  /** Does the same as `RESOLVE_TOKEN` by single commands. */
  const resolveByCommands = async (number: number, bucket: string, field: string): Promise<string[]> => {
    if (!(await isActive(client, number))) return ["gone"];
    const [id] = await client.run("resolve", "hmget", [bucket, field]);
    if (typeof id !== "string") return ["missing"];
    return ["found", String(Date.now()), id, ...Object.entries(await read(number, id)).flat()];
  };

  /** Finds the group of a token. The index is only a hint: the record of the group decides. @throws TokenNotFound */
  const find = async ({ number }: Environment, token: string): Promise<Found> => {
    const digest = digestOf(token);
    const [tokens, field] = [tokensKey(number, digest), digest.slice(2)];
    const args = { environment: environmentKey(number), tokens, field };
    const whileMoving = () => resolveByCommands(number, tokens, field);
    const answer = await client.ask("resolve", RESOLVE_TOKEN, args, { whileMoving });
    const [state, now, providedId = ""] = answer;
    if (state === "gone") throw new EnvironmentNotFound();
    const record = recordFromAnswer(answer, 3);
    if (record[FIELD.digest] === digest) return { providedId, record };
    const isPrevious = record[FIELD.graceDigest] === digest && integerOf(record, FIELD.graceUntil) > Number(now);
    if (!isPrevious) throw new TokenNotFound();
    return { providedId, record, isPrevious };
  };

  /** Creates a group, unless another call has created it. */
  const create: UserGroupStore["getOrCreate"] = async (environment, group, by) => {
    const { number } = environment;
    const { providedId } = group;
    const token = newUserGroupToken();
    const digest = tokenDigest(token);
    const fields = changedFields(group);
    fields.names.push("token");
    setToken(fields, cipher.encrypt(environment, token, digest));
    const answer = await changeEnvironment({ client, audit, environment, by }, "create", WRITE_GROUP, {
      group: groupKey(number, providedId),
      ids: idsKey(number),
      tokens: tokensKey(number, digest),
      id: providedId,
      expectedVersion: "",
      digest,
      graceMs: 0,
      ...teamIdArgs(number),
      ...changeArgs(fields),
    });
    const [outcome, , version = "", teamText] = answer;
    if (outcome === "changed") {
      return { group: groupFromRecord(recordFromAnswer(answer), environment, cipher, providedId), created: false };
    }
    const [time, teamId] = [msOf(Number(version)), Number(teamText)];
    const times = { createTime: time, updateTime: time, tokenCreateTime: time };
    const made = { ...group, ...times, token, teamId, etag: etagOf(teamId, version), environmentTag: environment.tag };
    return { group: made, created: true };
  };

  return {
    async get(environment, providedId) {
      const record = await read(environment.number, providedId);
      if (isEmpty(record)) throw new UserGroupNotFound();
      return groupFromRecord(record, environment, cipher, providedId);
    },

    async getOrCreate(environment, group, by) {
      const key = groupKey(environment.number, group.providedId);
      const record = await client.run("get", "hgetall", [key], "not_made");
      if (isEmpty(record)) return create(environment, group, by);
      return { group: groupFromRecord(record, environment, cipher, group.providedId), created: false };
    },

    async update(environment, providedId, change, etag, by) {
      const answer = await changeEnvironment({ client, audit, environment, by }, "update", UPDATE_GROUP, {
        group: groupKey(environment.number, providedId),
        id: providedId,
        etag,
        keyIds: cipher.keyIdList,
        ...changeArgs(changedFields(change)),
      });
      const dropped = Number(answer[2]);
      if (dropped > 0) audit.onDropped(environment, dropped);
      return afterChange(() => groupFromRecord(recordFromAnswer(answer, 3), environment, cipher, providedId));
    },

    async rotate(environment, rotation, by) {
      const { record, providedId } = await rotate(deps, environment, rotation, { by });
      return afterChange(() => groupFromRecord(record, environment, cipher, providedId));
    },

    async resolve(environment, token) {
      const found = await find(environment, token);
      return viewerFromRecord(found.record, environment, found);
    },

    async sessionSubject(environment, target) {
      const found: Found =
        target.by === "token"
          ? await find(environment, target.token)
          : { providedId: target.providedId, record: await read(environment.number, target.providedId) };
      if (isEmpty(found.record))
        throw (await isActive(client, environment.number)) ? new UserGroupNotFound() : new EnvironmentNotFound();
      return { viewer: viewerFromRecord(found.record, environment, found), generation: generationOf(found.record) };
    },

    async resolveSession(environment, { providedId, teamId, generation, viewerId }) {
      const { number } = environment;
      const [group, ended] = [groupKey(number, providedId), revokedSessionsKey(number, teamId)];
      const args = { environment: environmentKey(number), group, ended, viewer: viewerDigest(viewerId) };
      const whileMoving = async () => {
        if (!(await isActive(client, number))) return ["gone"];
        const [note] = await client.run("resolve-session", "hmget", [ended, args.viewer]);
        return ["found", note ?? "", ...Object.entries(await read(number, providedId)).flat()];
      };
      const answer = await client.ask("resolve-session", RESOLVE_SESSION, args, { whileMoving });
      if (answer[0] === "gone") throw new EnvironmentNotFound();
      const record = recordFromAnswer(answer);
      if (isEmpty(record)) throw new ViewerSessionEnded();
      const first = Math.max(generationOf(record, "firstGeneration"), Number.parseInt(answer[1] || "0", 10));
      // If the generation is later than the group's, Redis has lost a revocation. Then the session may be revoked, too.
      const isLive = generation >= first && generation <= generationOf(record);
      if (!isLive || integerOf(record, FIELD.teamId) !== teamId) throw new ViewerSessionEnded();
      return viewerFromRecord(record, environment, { providedId });
    },
  };
}

/** The range of team ids of an environment. */
export function teamIdArgs(number: number) {
  return { firstTeamId: number * TEAM_IDS, teamIds: TEAM_IDS };
}

/** Implements `UserGroupAdminStore.endSessions`. */
export async function endSessions(
  { client, audit }: GroupDeps,
  environment: Environment,
  { providedId, viewerId }: SessionOwner,
  by: ChangeBy,
): Promise<void> {
  await changeEnvironment({ client, audit, environment, by }, "end-sessions", END_SESSIONS, {
    group: groupKey(environment.number, providedId),
    id: providedId,
    viewer: viewerDigest(viewerId),
    maxViewers: MAX_ENDED_VIEWERS,
    notesTtlMs: NOTES_TTL_MS,
  });
}

/** Whether the environment exists and is not in deletion. */
async function isActive(client: StoreClient, number: number): Promise<boolean> {
  const [state] = await client.run("environment", "hmget", [environmentKey(number), "state"]);
  return state === "active";
}

function viewerDigest(viewerId: string | undefined): string {
  return viewerId === undefined ? "" : digest(viewerId).slice(0, VIEWER_CHARACTERS);
}
