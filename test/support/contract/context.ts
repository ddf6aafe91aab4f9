import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect } from "vitest";
import type { AuditEvent } from "../../../src/domain/audit.ts";
import { type Environment, environmentPath } from "../../../src/domain/environment.ts";
import type { ImportedUserGroup, NewUserGroup, Rotation, UserGroup } from "../../../src/domain/user-group.ts";
import "../../../src/server/runtime.ts";
import { StoreUnavailable } from "../../../src/domain/errors.ts";
import { groupFromMessage } from "../../../src/rpc/messages.ts";
import type { Audit } from "../../../src/store/audit.ts";
import { redisAuditTrail } from "../../../src/store/audit-trail.ts";
import type { StoreClient } from "../../../src/store/connection/client.ts";
import type { ScriptedRedis } from "../../../src/store/connection/connection.ts";
import type { RingKey } from "../../../src/store/encryption.ts";
import { environmentKey, environmentPrefix } from "../../../src/store/keys.ts";
import { redisOf } from "../redis-of.ts";
import { AUDIT, testUserGroupAdmin, testUserGroups } from "../stores.ts";

/**
 * Opens one or more connections to the same data. Each connection represents a worker. The suite that calls this
 * function closes the connections.
 */
export type OpenClients = () => Promise<readonly StoreClient[]>;

export const RING: readonly RingKey[] = [{ id: "k1", secret: new Uint8Array(32).fill(1) }];

/** The key that replaces the key of `RING` in a key rotation. */
export const NEXT: RingKey = { id: "k2", secret: new Uint8Array(32).fill(2) };

export interface ContractContext {
  /**
   * Returns the store of a worker. `worker` is the number of the worker, and selects its connection. If there are more
   * workers than connections, workers share connections.
   */
  store(options?: { worker?: number; ring?: readonly RingKey[]; audit?: Audit }): ReturnType<typeof testUserGroups>;
  /** Creates an environment that contains the group `a`. */
  withGroup(given?: Partial<Environment>): Promise<{ environment: Environment; group: UserGroup }>;
  admin(options?: { worker?: number; ring?: readonly RingKey[] }): ReturnType<typeof testUserGroupAdmin>;
  /** Returns all connections, for tests that read stored data. */
  clients(): readonly StoreClient[];
  client(worker?: number): StoreClient;
  /**
   * Whether several processes can use the store. False for the embedded store. The embedded store also takes about a
   * millisecond per script, stores events in lists, and does not distinguish types of keys.
   */
  readonly isShared: boolean;
  /** Returns the number of groups or calls for a test: `count`, or a fifth of `count` in the embedded store. */
  many(count: number): number;
  /**
   * Changes that replace the token of the group `a`. Each element has the name of a change, and a function that makes
   * the change.
   */
  readonly replacements: readonly (readonly [what: string, replace: (environment: Environment) => Promise<unknown>])[];
  /** Returns a connection with which a test reads and writes stored data, on every node of a Cluster. */
  redis(): ScriptedRedis;
}

export interface ContractOptions {
  /** As in `ContractContext`. Default: true. */
  readonly isShared?: boolean;
  /**
   * Returns a connection that can reach the keys on every node of a Cluster. If undefined, tests use the connection of
   * the first worker.
   */
  readonly operator?: () => ScriptedRedis;
}

export function contractContext(open: OpenClients, { isShared = true, operator }: ContractOptions): ContractContext {
  let clients: readonly StoreClient[] = [];
  beforeAll(async () => {
    clients = await open();
    current = redis;
  });
  afterAll(() => {
    for (const client of clients) client.close();
  });
  const redis = () => operator?.() ?? redisOf(client());
  const client = (worker = 0) => clients[worker % clients.length] ?? expect.fail("no connection is open");
  const store: ContractContext["store"] = ({ worker = 0, ring = RING, audit = AUDIT } = {}) =>
    testUserGroups(client(worker), ring, audit);
  const admin: ContractContext["admin"] = ({ worker = 0, ring = RING } = {}) =>
    testUserGroupAdmin(client(worker), ring);
  return {
    store,
    withGroup: async (given) => {
      const environment = await newEnvironment(given);
      return { environment, group: (await store().getOrCreate(environment, newGroup("a"))).group };
    },
    admin,
    clients: () => clients,
    client,
    replacements: [
      ["a rotation", (environment) => store().rotate(environment, byId("a"))],
      ["a rotation with a grace period", (environment) => store().rotate(environment, byId("a", { graceMs: 60_000 }))],
      ["a revocation", (environment) => admin().revokeTokens(environment, "a")],
    ],
    isShared,
    many: (count) => (isShared ? count : Math.ceil(count / 5)),
    redis,
  };
}

/** Creates an environment by writing only its record. No audit event is written, and the environment is not listed. */
export async function newEnvironment(
  given: Partial<Environment> = {},
  redis: Pick<ScriptedRedis, "hset"> | undefined = current?.(),
): Promise<Environment> {
  const { name = newName(), tag, number = ++lastNumber } = given;
  const environment = { name, tag, number };
  if (!redis) throw new Error("no store is open");
  const record = { state: "active", path: environmentPath(environment), create_time: String(Date.now()) };
  await redis.hset(environmentKey(number), record);
  return environment;
}

export function newName(): string {
  return `e${randomBytes(8).toString("hex")}`;
}

let lastNumber = 0;

/** Returns the connection to the store that the current suite tests. */
let current: (() => ScriptedRedis) | undefined;

export function newGroup(providedId: string, given: Partial<NewUserGroup> = {}): NewUserGroup {
  return { ...groupFromMessage(providedId, { mapping: {} }), ...given };
}

/** Returns a group to import. By default, its token has the form of a token of another system. */
export function imported(providedId: string, given: Partial<ImportedUserGroup> = {}): ImportedUserGroup {
  return { ...newGroup(providedId), token: foreignToken(), ...given };
}

export function foreignToken(): string {
  return `foreign-${randomBytes(12).toString("hex")}`;
}

export function byToken(token: string, given: Partial<Rotation> = {}): Rotation {
  return { target: { by: "token", token }, ...rotation(given) };
}

export function byId(providedId: string, given: Partial<Rotation> = {}): Rotation {
  return { target: { by: "id", providedId }, ...rotation(given) };
}

/**
 * Returns a rotation. By default, `requestedGraceMs` is equal to `graceMs`, as if the caller had requested this grace
 * period.
 */
function rotation(given: Partial<Rotation>) {
  return { graceMs: 0, requestedGraceMs: given.graceMs, requestId: undefined, ...given };
}

/** Returns the audit events of an environment in the last minute. The newest event is the first element. */
export async function eventsOf(client: StoreClient, environment: Environment): Promise<readonly AuditEvent[]> {
  const listed = { ...environment, createTime: Date.now() - 60_000, deleteTime: undefined };
  return (await redisAuditTrail(client, AUDIT).list([listed], {}, { after: "", size: 1000 })).items;
}

/** Returns all keys of an environment with their values. The value of a stream is a list with one element per event. */
export async function contents(redis: ScriptedRedis, { number }: Environment): Promise<Record<string, unknown>> {
  const keys = await redis.keys(`${environmentPrefix(number)}*`);
  const entries = keys.sort().map(async (key) => {
    const type = await redis.type(key);
    if (type === "hash") return [key, await redis.hgetall(key)] as const;
    if (type === "stream") return [key, await redis.xrange(key, "-", "+")] as const;
    // The embedded store keeps streams as lists.
    if (type === "list") return [key, await redis.lrange(key, 0, -1)] as const;
    return [key, type === "zset" ? await redis.zrange(key, 0, -1, "WITHSCORES") : await redis.get(key)] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/**
 * Returns a client that calls `duringScript` each time before it runs the script with the name `script`. If
 * `duringScript` fails, the call fails, and the script does not run.
 */
export function heldUpAt(client: StoreClient, script: string, duringScript: () => Promise<unknown>): StoreClient {
  const held =
    (call: StoreClient["change"]): StoreClient["change"] =>
    async (...args) => {
      if (args[1].name === script) await duringScript();
      return call.apply(client, args);
    };
  const [run, ask] = [client.run.bind(client), client.ask.bind(client)];
  const confirmMissing = client.confirmMissing.bind(client);
  return { run, ask, confirmMissing, change: held(client.change) } as unknown as StoreClient;
}

/**
 * Returns a client that fails instead of running the script with the name `script`. The stored data is then the same as
 * after an exit of the worker before the script.
 */
export function failingAt(client: StoreClient, script: string): StoreClient {
  return heldUpAt(client, script, () => Promise.reject(new StoreUnavailable(undefined, "not_made")));
}

type ErrorClass = abstract new (...args: never[]) => Error;

export async function fails(call: Promise<unknown>, error: ErrorClass): Promise<void> {
  await expect(call).rejects.toBeInstanceOf(error);
}

/**
 * Expects that exactly one call succeeds, and that all other calls fail with an error of the class `error`.
 *
 * @returns the result of the call that succeeds
 */
export async function oneWins<T>(calls: readonly Promise<T>[], error: ErrorClass): Promise<T> {
  const settled = await Promise.allSettled(calls);
  for (const each of settled) if (each.status === "rejected") expect(each.reason).toBeInstanceOf(error);
  const answers = settled.filter((each) => each.status === "fulfilled").map(({ value }) => value);
  expect(answers).toHaveLength(1);
  return answers[0] as T;
}
