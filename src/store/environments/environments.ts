import { createHash } from "node:crypto";
import type { ChangeBy } from "../../domain/audit.ts";
import {
  DEFAULT_PARTITIONS,
  ENVIRONMENT_NUMBERS,
  type Environment,
  type EnvironmentName,
  environmentPath,
  type ListedEnvironment,
  MAX_PARTITIONS,
  type NewEnvironment,
  parseEnvironmentPath,
} from "../../domain/environment.ts";
import {
  EnvironmentBeingDeleted,
  EnvironmentExists,
  EnvironmentNotFound,
  RecordUnreadable,
} from "../../domain/errors.ts";
import type { EnvironmentStore } from "../../domain/store.ts";
import { type Audit, auditedScript } from "../audit/audit.ts";
import { ENVIRONMENTS_KEY, environmentKey, environmentNumberKey, KEY, partitionPrefix, partitionsOf } from "../keys.ts";
import {
  ADD_MEMBER,
  optionalIntegerOf,
  recordFromAnswer,
  recordsOf,
  SET_IF_ABSENT,
  type StoredRecord,
} from "../records.ts";
import type { StoreClient } from "../redis/client.ts";

/** Names of the fields of an environment's hash. Numbers are decimal. */
export const ENVIRONMENT_FIELD = {
  partitions: "partitions",
  number: "number",
  /** In milliseconds since 1970 by the clock of the process that made it; missing in one of an earlier version. */
  createTime: "create_time",
  /** Since when it is being deleted, by Redis' clock. */
  deleteTime: "delete_time",
  /** How many partitions it had; only while it is being deleted and after. */
  formerPartitions: "former_partitions",
  /** Only in one that is deleted. */
  isDeleted: "is_deleted",
  /** How many environments of its name were deleted; missing: none. */
  generation: "generation",
} as const;

/** How many numbers are tried for a new environment: with a tenth of all taken, one in 10^12 finds none free. */
const TRIES = 12;

/**
 * Makes an environment, or completes one of an earlier version: sets the fields behind the arguments that it lacks. One that is
 * deleted is made `anew`, if that is asked for. Its generation must be `generation`, as it was read before.
 * Answers `deleted` when it is deleted, or of another generation by now; or `done`, when a field was missing, or `found`, and
 * the hash.
 */
export const MAKE = auditedScript("ugMakeEnvironment", {
  args: ["generation", "anew"],
  lua: `local is_deleted = redis.call('HEXISTS', key, '${ENVIRONMENT_FIELD.deleteTime}') == 1
local may_be = anew ~= '' and redis.call('HEXISTS', key, '${ENVIRONMENT_FIELD.isDeleted}') == 1
if is_deleted and not may_be or (redis.call('HGET', key, '${ENVIRONMENT_FIELD.generation}') or '') ~= generation then
  return {'deleted', stamp}
end
local missing = {}
for i = rest, #ARGV, 2 do
  if is_deleted or redis.call('HEXISTS', key, ARGV[i]) == 0 then missing[#missing + 1] = i end
end
for _, i in ipairs(missing) do redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
if is_deleted then
  local fields = {'${ENVIRONMENT_FIELD.deleteTime}', '${ENVIRONMENT_FIELD.formerPartitions}', '${ENVIRONMENT_FIELD.isDeleted}'}
  redis.call('HDEL', key, spread(fields))
end
if #missing > 0 then audit('', '') end
return {#missing > 0 and 'done' or 'found', stamp, spread(redis.call('HGETALL', key))}`,
});

/**
 * Environments in Redis. The record of a deleted one stays, marked as deleted: callers, and workers that have not heard
 * of the deletion, do not make the environment again. Only CreateEnvironment does.
 */
export function redisEnvironments(client: StoreClient, audit: Audit): EnvironmentStore {
  const read = (name: EnvironmentName): Promise<StoredRecord> =>
    client.run("environment", "hgetall", [environmentKey(name)], "not_made");

  /** Adds an environment to the list of all. It is listed before it is there, so that none is there unlisted. */
  const addToList = async (name: EnvironmentName): Promise<void> => {
    const path = environmentPath(name);
    const range = [ENVIRONMENTS_KEY, `[${path}`, `[${path}`, "LIMIT", 0, 1] as const;
    const listed = await client.run("list", "zrangebylex", range, "not_made");
    if (listed.length > 0) return;
    await client.prepare("list-environment", ADD_MEMBER, { key: ENVIRONMENTS_KEY, member: path });
  };

  /**
   * Gives an environment a number of its own. The number follows from the name: should Redis lose the environment but not its
   * groups, it gets the same number again. Only when another environment has that number already does it take a further
   * one. After a deletion the number follows from the generation, too, so that no team id is given twice.
   */
  const giveNumber = async (name: EnvironmentName, generation: string): Promise<number> => {
    const path = generation === "" ? environmentPath(name) : `${environmentPath(name)}#${generation}`;
    for (let tries = 0; tries < TRIES; tries++) {
      const number = wantedNumber(path, tries);
      const args = { key: environmentNumberKey(number), text: path, lastsMs: 0 };
      const [, , owner] = await client.change("environment-number", SET_IF_ABSENT, args);
      if (owner === path) return number;
    }
    throw new RecordUnreadable(new Error(`no number is left for the environment ${path}`));
  };

  /**
   * Makes what an environment lacks, in one step, so that none is ever there without a number of its own.
   *
   * @param anew whether one that is deleted may be made anew
   */
  const make = async (name: NewEnvironment, record: StoredRecord, by: ChangeBy, anew = false): Promise<string[]> => {
    await addToList(name);
    const generation = record[ENVIRONMENT_FIELD.generation] ?? "";
    const number = record[ENVIRONMENT_FIELD.number] ?? String(await giveNumber(name, generation));
    const fields = [
      ...[ENVIRONMENT_FIELD.partitions, String(name.partitions ?? DEFAULT_PARTITIONS)],
      ...[ENVIRONMENT_FIELD.createTime, String(Date.now())],
      ...[ENVIRONMENT_FIELD.number, number],
    ];
    const args = { key: environmentKey(name), generation, anew, rest: fields };
    return client.change("environment", MAKE, { ...args, ...audit.ofEnvironment(name, by) });
  };

  return {
    async ensureEnvironment(name, by) {
      // Nearly always it is there, and nothing need be changed.
      const record = await read(name);
      if (record[ENVIRONMENT_FIELD.deleteTime] !== undefined) throw new EnvironmentNotFound();
      if (record[ENVIRONMENT_FIELD.partitions] === undefined || record[ENVIRONMENT_FIELD.number] === undefined) {
        const answer = await make(name, record, by);
        if (answer[0] === "deleted") throw new EnvironmentNotFound();
        return environmentFromRecord(name, recordFromAnswer(answer));
      }
      // One that an earlier version made may not be listed yet. When this fails, only the list lacks it.
      await addToList(name).catch(() => {});
      return environmentFromRecord(name, record);
    },

    async create(name, by) {
      const record = await read(name);
      if (isBeingDeleted(record)) throw new EnvironmentBeingDeleted();
      if (record[ENVIRONMENT_FIELD.partitions] !== undefined) throw new EnvironmentExists();
      const answer = await make(name, record, by, true);
      // Another caller may have made it meanwhile.
      if (answer[0] !== "done") throw new EnvironmentExists();
      // It is listed, but the end of an earlier one's deletion may have taken it off the list since.
      await addToList(name).catch(() => {});
      return listedFromRecord(name, recordFromAnswer(answer));
    },

    async find(name) {
      const record = await read(name);
      if (record[ENVIRONMENT_FIELD.partitions] === undefined) throw new EnvironmentNotFound();
      return environmentFromRecord(name, record);
    },

    async findFormer(name) {
      const record = await read(name);
      const partitions = record[ENVIRONMENT_FIELD.partitions] ?? record[ENVIRONMENT_FIELD.formerPartitions];
      if (partitions === undefined) throw new EnvironmentNotFound();
      // A deleted one has no number any more.
      return environmentFromRecord(name, { [ENVIRONMENT_FIELD.number]: "1", ...record, partitions });
    },

    async get(name) {
      const record = await read(name);
      if (!isListed(record)) throw new EnvironmentNotFound();
      return listedFromRecord(name, record);
    },

    async countUserGroups(environment) {
      const counts = partitionsOf(environment).map((partition) =>
        client.run("count-user-groups", "zcard", [partitionPrefix(environment, partition) + KEY.ids]),
      );
      return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
    },

    async list({ after, size }) {
      const range = [ENVIRONMENTS_KEY, after === "" ? "-" : `(${after}`, "+", "LIMIT", 0, size + 1] as const;
      const found = await client.run("list", "zrangebylex", range);
      const paths = found.slice(0, size);
      const names = paths.flatMap((path) => parseEnvironmentPath(path) ?? []);
      const items: ListedEnvironment[] = [];
      const reading = { operation: "list-environments", keyOf: environmentKey };
      for await (const [name, record] of recordsOf(client, names, reading)) {
        // An environment is listed before it is made, and until it is deleted.
        if (isListed(record)) items.push(listedFromRecord(name, record));
      }
      return { items, next: found.length > size ? paths.at(-1) : undefined };
    },
  };
}

/** The environment that a record holds. @throws RecordUnreadable */
export function environmentFromRecord(name: EnvironmentName, record: StoredRecord): Environment {
  return {
    name: name.name,
    tag: name.tag,
    partitions: numberOf(name, record, ENVIRONMENT_FIELD.partitions, MAX_PARTITIONS),
    number: numberOf(name, record, ENVIRONMENT_FIELD.number, ENVIRONMENT_NUMBERS - 1),
  };
}

/** @throws RecordUnreadable */
function listedFromRecord(name: EnvironmentName, record: StoredRecord): ListedEnvironment {
  const partitions = record[ENVIRONMENT_FIELD.partitions] ?? record[ENVIRONMENT_FIELD.formerPartitions];
  return {
    ...environmentFromRecord(name, { ...record, partitions }),
    createTime: Number(record[ENVIRONMENT_FIELD.createTime]) || 0,
    deleteTime: optionalIntegerOf(record, ENVIRONMENT_FIELD.deleteTime),
  };
}

/** Whether there is an environment, or still one that is being deleted. */
function isListed(record: StoredRecord): boolean {
  return record[ENVIRONMENT_FIELD.partitions] !== undefined || isBeingDeleted(record);
}

function isBeingDeleted(record: StoredRecord): boolean {
  return record[ENVIRONMENT_FIELD.deleteTime] !== undefined && record[ENVIRONMENT_FIELD.isDeleted] === undefined;
}

/** The number that an environment takes when those of the tries before are another's. */
export function wantedNumber(path: string, tries: number): number {
  const hash = createHash("sha256").update(`${tries}\0${path}`).digest().readUInt32BE();
  return 1 + (hash % (ENVIRONMENT_NUMBERS - 1));
}

function numberOf(name: EnvironmentName, record: StoredRecord, field: string, max: number) {
  const value = Number(record[field]);
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new RecordUnreadable(new Error(`${environmentKey(name)} holds no usable ${field}`));
  }
  return value;
}
