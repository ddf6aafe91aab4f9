import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ScriptedRedis } from "@user-group-service/redis";
import { forSuite } from "@user-group-service/testing/opened";
import { beforeAll, describe, expect, it } from "vitest";
import { ImportMode } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ImportResult_Outcome as Outcome } from "../gen/usergroup/admin/v1/user_group_pb.ts";
import { TokenNotFound } from "../src/domain/errors.ts";
import type { ImportedUserGroup, ImportMode as Mode } from "../src/domain/user-group.ts";
import { openRedis } from "../src/store/redis/open.ts";
import { ADMIN_ENV, adminOf, issueToken } from "./support/admin.ts";
import { byToken, newEnvironment, newGroup, RING } from "./support/contract/context.ts";
import { describeWithRedis, newOperator, suiteRedis, suiteServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import { expectSound } from "./support/stored-groups.ts";
import { TestUserGroupAdmin, TestUserGroups } from "./support/stores.ts";

/** How many groups the store is given. `SCALE_GROUPS=100000` is what a migration may have; it takes some minutes. */
const STORE_GROUPS = Number(process.env["SCALE_GROUPS"] ?? 2000);

/** How many workers are given: every one of their calls goes over a socket twice. */
const WORKER_GROUPS = Number(process.env["SCALE_WORKER_GROUPS"] ?? 200);

/** Of when the other system's groups are. */
const snapshotTime = Date.now();

/** What is done with many groups, by one of two workers. */
interface Door {
  import(groups: readonly ImportedUserGroup[], mode: Mode): Promise<readonly string[]>;
  /** The ids of a page, and where the next one begins; undefined on the last one. */
  list(size: number, from: string): Promise<{ readonly ids: readonly string[]; readonly next: string | undefined }>;
  create(id: string): Promise<unknown>;
  delete(id: string): Promise<unknown>;
  /** The id of the group that has a token; undefined when none has. */
  resolve(token: string): Promise<string | undefined>;
  /** The new token; undefined when no group has the token. */
  rotate(token: string): Promise<string | undefined>;
}

describeWithRedis("groups of another system", () => {
  const redis = suiteRedis();

  describe("in the store", () => {
    const environment = newEnvironment();
    const clients = forSuite(
      () => Promise.all([0, 1].map(() => openRedis(redis.url, { timeoutMs: 60_000 }))),
      (opened) => {
        for (const client of opened) client.close();
      },
    );
    const unless = async <T>(call: Promise<T>) =>
      call.catch((error: unknown) => {
        if (!(error instanceof TokenNotFound)) throw error;
      });
    const door = (worker: number): Door => {
      const client = clients[worker] as (typeof clients)[number];
      const [store, admin] = [new TestUserGroups(client, RING), new TestUserGroupAdmin(client, RING)];
      return {
        import: async (groups, mode) =>
          (await admin.import(environment, groups, { mode, snapshotTime })).map(({ outcome }) => outcome),
        list: async (size, after) => {
          const { items, next } = await admin.list(environment, { after, size, prefix: "" });
          return { ids: items.map(({ providedId }) => providedId), next };
        },
        create: (id) => store.getOrCreate(environment, newGroup(id)),
        delete: (id) => admin.delete(environment, id),
        resolve: async (token) => (await unless(store.resolve(environment, token)))?.providedId,
        rotate: async (token) => (await unless(store.rotate(environment, byToken(token))))?.token,
      };
    };
    migration(STORE_GROUPS, door);

    it("leave nothing behind that is wrong", { timeout: timeoutOf(STORE_GROUPS) }, async () => {
      const { ids, foreign } = await expectSound(newOperator(redis) as ScriptedRedis, environment);
      expect([ids.length, foreign]).toEqual([STORE_GROUPS, []]);
    });
  });

  describe("through two workers", () => {
    // Without a line in the log for every call.
    const env = { ...ADMIN_ENV, LOG_LEVEL: "info" };
    const first = suiteServer(() => ({ runtime: "node", redisUrl: redis.url, env }));
    const second = suiteServer(() => ({ runtime: "deno", redisUrl: redis.url, like: first, env }));
    const tokens: string[] = [];
    const unless = async <T>(call: Promise<T>) =>
      call.catch(async (error: unknown) => {
        expect((await failureOf(Promise.reject(error))).reason).toBe("TOKEN_NOT_FOUND");
      });
    const door = async (worker: number): Promise<Door> => {
      const server = worker === 0 ? first : second;
      tokens[0] ??= (await issueToken(server, "admin")).token;
      const admin = adminOf(server.url, tokens[0]);
      const { groups, viewers } = grpcClients(server);
      return {
        import: async (userGroups, mode) => {
          const { results } = await admin.importUserGroups({
            userGroups: userGroups.map(({ token, properties, ...group }) => ({
              ...group,
              ...(token !== undefined && { token }),
              ...(properties && { properties }),
            })),
            mode: mode === "upsert" ? ImportMode.UPSERT : ImportMode.CREATE_ONLY,
            snapshotTime: timestampFromMs(snapshotTime),
          });
          expect(results.map(({ providedId }) => providedId)).toEqual(userGroups.map(({ providedId }) => providedId));
          return results.map(({ outcome }) => nameOf(outcome));
        },
        list: async (pageSize, pageToken) => {
          const { userGroups, nextPageToken } = await admin.listUserGroups({ pageSize, pageToken });
          return { ids: userGroups.map(({ providedId }) => providedId), next: nextPageToken || undefined };
        },
        create: (userGroupId) => groups.getUserGroup({ userGroupId }),
        delete: (userGroupId) => admin.deleteUserGroup({ userGroupId }),
        resolve: async (token) => (await unless(viewers.resolveViewer({ token })))?.providedId,
        rotate: async (value) => {
          const group = { case: "currentToken", value } as const;
          return (await unless(groups.rotateUserGroupToken({ group })))?.userGroup?.token;
        },
      };
    };
    migration(WORKER_GROUPS, door);
  });
});

const idOf = (i: number) => `tenant-${String(i).padStart(7, "0")}`;
const tokenOf = (i: number) => `legacy.${i.toString(36)}.${"0123456789abcdef".repeat(2)}`;

function timeoutOf(count: number): number {
  return 60_000 + count * 20;
}

/** A migration of so many groups, in the order in which it goes. */
function migration(count: number, open: (worker: number) => Door | Promise<Door>): void {
  const doors: Door[] = [];
  const door = (i: number) => doors[i % 2] as Door;
  beforeAll(async () => {
    doors.push(await open(0), await open(1));
  });
  const timeout = timeoutOf(count);
  const indexes = Array.from({ length: count }, (_, i) => i);

  /** Imports all, 500 in a call, and counts the outcomes. */
  async function importAll(mode: Mode): Promise<{ readonly [outcome: string]: number }> {
    const counts: { [outcome: string]: number } = {};
    const starts = indexes.filter((i) => i % 500 === 0);
    await together(starts, 2, async (start) => {
      const groups = indexes.slice(start, start + 500).map((i) => {
        const values = { name: `Tenant ${i}`, mapping: { main: `db-${i}` }, properties: undefined };
        return { providedId: idOf(i), ...values, token: tokenOf(i) };
      });
      const outcomes = await door(start / 500).import(groups, mode);
      for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
    });
    return counts;
  }

  it("are imported with their tokens, and a second time nothing changes", { timeout }, async () => {
    expect(await importAll("create-only")).toEqual({ created: count });
    for (const mode of ["create-only", "upsert"] as const) expect(await importAll(mode)).toEqual({ unchanged: count });
  });

  it("are listed each once while others are made and deleted", { timeout }, async () => {
    const least = Math.min(1000, count / 4);
    let isEnding = false;
    let passed = 0;
    const passing = (async () => {
      const [one, other] = [door(0), door(1)];
      for (let i = 0; i < least || !isEnding; i++) {
        // Some before, some among and some behind those that stay.
        const id = `${["a", idOf((i * 7919) % count), "z"][i % 3]}-passing-${i}`;
        await one.create(id);
        await other.delete(id);
        passed++;
      }
    })();
    for (const size of [1000, 137]) {
      const seen: string[] = [];
      let next: string | undefined = "";
      while (next !== undefined) {
        const page: Awaited<ReturnType<Door["list"]>> = await door(seen.length).list(size, next);
        expect(page.ids.length).toBeLessThanOrEqual(size);
        seen.push(...page.ids);
        ({ next } = page);
      }
      const staying = seen.filter((id) => !id.includes("-passing-"));
      expect(staying).toHaveLength(count);
      expect(staying.every((id, i) => id === idOf(i))).toBe(true);
      expect(new Set(seen).size).toBe(seen.length);
    }
    isEnding = true;
    await passing;
    expect(passed).toBeGreaterThanOrEqual(least);
  });

  it("resolve each, rotate once, and their old tokens are dead and stay so", { timeout }, async () => {
    await together(indexes, 64, async (i) => {
      const [one, other] = [door(i), door(i + 1)];
      const old = tokenOf(i);
      expect(await one.resolve(old)).toBe(idOf(i));
      const token = (await one.rotate(old)) ?? "";
      expect(await other.resolve(token)).toBe(idOf(i));
      expect(await other.resolve(old)).toBeUndefined();
      expect(await other.rotate(old)).toBeUndefined();
    });
    for (const mode of ["create-only", "upsert"] as const) {
      expect(await importAll(mode)).toEqual({ "token-newer": count });
    }
    await together(indexes, 64, async (i) => expect(await door(i).resolve(tokenOf(i))).toBeUndefined());
  });
}

function nameOf(outcome: Outcome): string {
  const [name = "unknown"] = Object.entries(Outcome).find(([, value]) => value === outcome) ?? [];
  return name.toLowerCase().replace("_", "-");
}

/** Does something with each, so many at once. */
async function together<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const loop = async () => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
}
