import { createHash } from "node:crypto";
import type { RevocationListener } from "../domain/api-token.ts";
import type { ChangeBy } from "../domain/audit.ts";
import {
  ENVIRONMENT_NUMBERS,
  type Environment,
  type EnvironmentName,
  environmentPath,
  type ListedEnvironment,
  parseEnvironmentPath,
} from "../domain/environment.ts";
import {
  EnvironmentBeingDeleted,
  EnvironmentExists,
  EnvironmentNotEmpty,
  EnvironmentNotFound,
  RecordUnreadable,
  StoreUnavailable,
} from "../domain/errors.ts";
import { type EnvironmentStore, unlessNotFound } from "../domain/store.ts";
import { type Audit, sendChange } from "./audit.ts";
import type { StoreClient } from "./connection/client.ts";
import { ENVIRONMENTS_KEY, environmentKey, environmentMember, fromMember, idsKey, newsMessage } from "./keys.ts";
import { inBatches, integerOf, optionalIntegerOf, type StoredRecord } from "./records.ts";
import { ADD_MEMBER, BEGIN_DELETION, CLEAR_ENVIRONMENT, CREATE_ENVIRONMENT, REMOVE_MEMBER } from "./scripts.ts";

/*
 * The possible numbers of an environment (candidates) are digests of its name, its tag and a counter. A new environment
 * gets the first candidate without a record. A deleted environment keeps its record and its number. To find an
 * environment, the service reads the records of its candidates in order. Of all environments with the same name, at
 * most one is not deleted.
 *
 * The list of environments has an entry with the path and number of each environment. A creation first adds the entry,
 * and then creates the record. A deletion sets the state `deleting`, removes groups and tokens, sets the state
 * `deleted`, and removes the entry. Each of these steps runs at least one script. If a process ends between two
 * scripts, the record decides: look-ups ignore the entry of a missing or deleted environment, and add the missing entry
 * of an existing environment.
 */

const CANDIDATES_AT_ONCE = 16;

/** The maximum number of candidates of a name. At most this many environments can ever have the name. */
const MAX_CANDIDATES = 10_000;

/** The number of groups that one script deletes. */
const CLEARED_AT_ONCE = 100;
const MAX_GROUPS = 10_000;
/** The maximum duration of one call of `delete`, in milliseconds. */
const MAX_MS = 5000;

interface Stored {
  readonly number: number;
  readonly record: StoredRecord;
}

interface Candidates {
  /**
   * The environments with the name, in the order of their creation. All environments before the last one are deleted.
   */
  readonly own: readonly Stored[];
  /** The number for the next environment with the name. Undefined if the last environment is not deleted. */
  readonly free: number | undefined;
}

export interface EnvironmentDeps {
  readonly client: StoreClient;
  readonly audit: Audit;
  /** Receives the deletions by this process. `followRevocations` reports the deletions by all processes. */
  readonly listener: Pick<RevocationListener, "environmentDeleted">;
  /** The approximate number of groups that one call of `delete` deletes. Default: 10,000. */
  readonly maxGroups?: number;
}

export function redisEnvironments({
  client,
  audit,
  listener,
  maxGroups = MAX_GROUPS,
}: EnvironmentDeps): EnvironmentStore {
  const readRecord = (number: number): Promise<StoredRecord> =>
    client.run("environment", "hgetall", [environmentKey(number)], "not_made");

  const listedNumbers = async (path: string): Promise<readonly number[]> => {
    const range = [`(${environmentMember(path, "")}`, `(${path}!`, "LIMIT", 0, CANDIDATES_AT_ONCE] as const;
    const members = await client.run("environment", "zrangebylex", [ENVIRONMENTS_KEY, ...range], "not_made");
    return members.map((member) => fromMember(member).number);
  };

  const list = async (path: string, number: number): Promise<void> => {
    const member = environmentMember(path, number);
    await client.change("list-environment", ADD_MEMBER, { key: ENVIRONMENTS_KEY, member });
  };

  /**
   * Reads the records of the candidates in order. Stops at the first candidate without a record, or at the environment
   * that has this name and is not deleted.
   */
  const walk = async (name: EnvironmentName): Promise<Candidates> => {
    const path = environmentPath(name);
    const own: Stored[] = [];
    for (let attempt = 0, count = 1; attempt < MAX_CANDIDATES; attempt += count, count = CANDIDATES_AT_ONCE) {
      const numbers = Array.from({ length: count }, (_, i) => candidateOf(path, attempt + i));
      const reads = numbers.map(readRecord);
      await Promise.allSettled(reads);
      for (const [i, number] of numbers.entries()) {
        // If the loop returns at this candidate, errors from the reads of later candidates are ignored.
        const record = (await reads[i]) as StoredRecord;
        if (record["state"] === undefined) return { own, free: number };
        if (record["path"] === path && !own.some((each) => each.number === number)) own.push({ number, record });
        if (own.at(-1)?.number === number && isLive(record, path)) return { own, free: undefined };
      }
    }
    throw new RecordUnreadable(new Error(`no number is left for the environment ${path}`), "not_made");
  };

  /** Returns the environment that has this name and is not deleted. @throws EnvironmentNotFound */
  const lookUp = async (name: EnvironmentName): Promise<Stored> => {
    const path = environmentPath(name);
    let unavailable: StoreUnavailable | undefined;
    // If the shard with the list of environments is down, read the records of the candidates instead, because their
    // shards may still answer.
    const numbers = await listedNumbers(path).catch((error: unknown) => {
      if (!(error instanceof StoreUnavailable)) throw error;
      unavailable = error;
      return [];
    });
    for (const number of numbers) {
      const record = await readRecord(number);
      if (isLive(record, path)) return { number, record };
    }
    const { own } = await walk(name).catch((error: unknown) => {
      // If the read of the list of environments failed, throw the error of this first read, because it contains the
      // cause. The error of a later read may report nothing more than a closed connection.
      throw error instanceof StoreUnavailable ? (unavailable ?? error) : error;
    });
    const last = own.at(-1);
    if (!last || !isLive(last.record, path)) throw new EnvironmentNotFound();
    // If this call fails, the next look-up adds the entry.
    if (!unavailable) await list(path, last.number).catch(() => {});
    return last;
  };

  /** @throws EnvironmentNotFound if the last environment with this name is deleted, and `mayFollowDeleted` is false */
  const lookUpOrCreate = async (
    name: EnvironmentName,
    by: ChangeBy,
    mayFollowDeleted: boolean,
  ): Promise<Stored & { isCreated: boolean }> => {
    const path = environmentPath(name);
    // `lookUp` reads the list of environments, so it finds the environment even if the record of an earlier candidate
    // is lost.
    const found = await lookUp(name).catch(unlessNotFound);
    if (found) return { ...found, isCreated: false };
    for (;;) {
      const { own, free: number } = await walk(name);
      const last = own.at(-1);
      if (number === undefined) return { ...(last as Stored), isCreated: false };
      if (last && !mayFollowDeleted) throw new EnvironmentNotFound();
      await client.confirmMissing();
      await list(path, number);
      const change = { client, audit, environment: { number }, by };
      const args = { path };
      const [state, now] = await sendChange(change, "create-environment", CREATE_ENVIRONMENT, args);
      if (state === "damaged") {
        const cause = new Error(
          `${environmentKey(number)} is lost, but the environment has user groups: restore a backup`,
        );
        throw new RecordUnreadable(cause, "not_made");
      }
      if (state === "done") return { number, record: { state: "active", path, create_time: now }, isCreated: true };
      // Another call or another environment has claimed the number, so read the candidates again.
    }
  };

  const clearEnvironment = async (environment: Environment, by: ChangeBy): Promise<number> => {
    const change = { client, audit, environment, by };
    const end = performance.now() + MAX_MS;
    const count = Math.min(CLEARED_AT_ONCE, maxGroups);
    for (let cleared = count; ; cleared += count) {
      const [state, , left] = await sendChange(change, "clear-environment", CLEAR_ENVIRONMENT, { count });
      // The deletion is complete. If the state is `gone`, another call completed the deletion. If `left` is undefined,
      // this call completed the deletion.
      if (state === "gone" || left === undefined) return 0;
      if (Number(left) > 0 && (cleared >= maxGroups || performance.now() > end)) return Number(left);
    }
  };

  return {
    async ensureEnvironment(name, by) {
      // If an environment with this name was deleted, only CreateEnvironment can create another one.
      const { number, record } = await lookUpOrCreate(name, by, false);
      if (record["state"] !== "active") throw new EnvironmentNotFound();
      return { name: name.name, tag: name.tag, number };
    },

    async create(name, by) {
      const created = await lookUpOrCreate(name, by, true);
      if (!created.isCreated)
        throw isBeingDeleted(created.record) ? new EnvironmentBeingDeleted() : new EnvironmentExists();
      return listedFrom(name, created);
    },

    async find(name) {
      const { number, record } = await lookUp(name);
      if (isBeingDeleted(record)) throw new EnvironmentNotFound();
      return { name: name.name, tag: name.tag, number };
    },

    async findAll(name) {
      const { own } = await walk(name);
      if (own.length === 0) throw new EnvironmentNotFound();
      return own.map((each) => listedFrom(name, each)).reverse();
    },

    async get(name) {
      return listedFrom(name, await lookUp(name));
    },

    countUserGroups: ({ number }) => client.run("count-user-groups", "zcard", [idsKey(number)]),

    async list({ after, size }) {
      const range = [ENVIRONMENTS_KEY, after === "" ? "-" : `(${after}`, "+", "LIMIT", 0, size + 1] as const;
      const found = await client.run("list", "zrangebylex", range);
      if (found.length === 0) await client.confirmMissing();
      const members = found.slice(0, size);
      const items: ListedEnvironment[] = [];
      const read = async (member: string) => {
        const { path, number } = fromMember(member);
        const record = await readRecord(number);
        return isLive(record, path) ? [listedFrom(environmentOf(path, number), { number, record })] : [];
      };
      for await (const batch of inBatches(members, CANDIDATES_AT_ONCE, read)) items.push(...batch.flat());
      return { items, next: found.length > size ? members.at(-1) : undefined };
    },

    async delete(name, force, by) {
      const { number, record } = await lookUp(name);
      const environment = { ...name, number };
      if (!isBeingDeleted(record)) {
        const args = { force, message: newsMessage("deleted", environment) };
        try {
          const change = { client, audit, environment, by };
          const answer = await sendChange(change, "begin-deletion", BEGIN_DELETION, args);
          if (answer[0] === "filled") throw new EnvironmentNotEmpty();
          if (answer[0] === "gone" && answer[2] !== "deleting") throw new EnvironmentNotFound();
        } finally {
          listener.environmentDeleted(environment);
        }
      }
      const left = await clearEnvironment(environment, by);
      if (left > 0) return left;
      const member = environmentMember(environmentPath(name), number);
      await client.change("list-environment", REMOVE_MEMBER, { key: ENVIRONMENTS_KEY, member });
      return 0;
    },
  };
}

/** Returns a candidate for the number of the environment with this path. For the first candidate, `attempt` is 0. */
export function candidateOf(path: string, attempt: number): number {
  const hash = createHash("sha256").update(`${attempt}\0${path}`).digest().readUInt32BE();
  return 1 + (hash % (ENVIRONMENT_NUMBERS - 1));
}

function listedFrom({ name, tag }: EnvironmentName, { number, record }: Stored): ListedEnvironment {
  const what = environmentKey(number);
  const createTime = integerOf(record, "create_time", what);
  return { name, tag, number, createTime, deleteTime: optionalIntegerOf(record, "delete_time", what) };
}

function isLive(record: StoredRecord, path: string): boolean {
  return record["path"] === path && (record["state"] === "active" || record["state"] === "deleting");
}

function isBeingDeleted(record: StoredRecord): boolean {
  return record["state"] === "deleting";
}

export function environmentOf(path: string, number: number): Environment {
  const name = parseEnvironmentPath(path);
  if (!name) throw new RecordUnreadable(new Error(`the path of ${environmentKey(number)} is invalid`));
  return { ...name, number };
}
