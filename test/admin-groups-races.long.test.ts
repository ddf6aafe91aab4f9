import { timestampNow } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import type { ScriptedRedis } from "@user-group-service/redis";
import { beforeAll, expect, inject, it } from "vitest";
import { type AdminService, ImportMode } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ImportResult_Outcome as Outcome } from "../gen/usergroup/admin/v1/user_group_pb.ts";
import { partitionOf } from "../src/domain/environment.ts";
import { tokenDigest } from "../src/store/encryption/encryption.ts";
import { KEY, partitionPrefix } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, suiteCluster, suiteClusterOperator, suiteServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import { expectSound } from "./support/stored-groups.ts";

describeWithRedis("on one Redis", () => {
  const redis = { url: inject("redisUrl") ?? "" };
  races(redis, () => newOperator(redis) as ScriptedRedis);
});
describeWithRedis("on a Cluster", () => {
  const cluster = suiteCluster();
  const operator = suiteClusterOperator(cluster);
  races(cluster, () => operator);
});

const UPSERT = ImportMode.UPSERT;
const HOUR = { seconds: 3600n };
const newToken = () => `raced-${crypto.randomUUID()}`;

interface Worker extends ReturnType<typeof grpcClients> {
  readonly admin: Client<typeof AdminService>;
}

/** Two workers, one on Node and one on Deno, whose operators and callers get in each other's way. */
function races(redis: { readonly url: string }, operatorOf: () => ScriptedRedis): void {
  const first = suiteServer(() => ({ runtime: "node", redisUrl: redis.url, env: ADMIN_ENV }));
  const second = suiteServer(() => ({ runtime: "deno", redisUrl: redis.url, like: first, env: ADMIN_ENV }));
  let workers: Worker[] = [];

  beforeAll(async () => {
    const { token } = await issueToken(first, "admin");
    workers = [first, second].map((server) => ({ ...grpcClients(server), admin: adminOf(server.url, token) }));
  });

  const worker = (i: number) => workers[i % workers.length] as Worker;
  const spread = async (count: number, call: (each: Worker, i: number) => Promise<unknown>) => {
    const settled = await Promise.allSettled(Array.from({ length: count }, (_, i) => call(worker(i), i)));
    for (const each of settled) {
      if (each.status === "fulfilled") continue;
      // Whoever is too late is told so, and nothing else.
      const { code } = await failureOf(Promise.reject(each.reason));
      expect(["NotFound", "Aborted"]).toContain(code);
    }
  };
  const isSound = async () => {
    await expectSound(operatorOf(), environment());
  };
  const environment = () => ({ name: first.environment, tag: "Customer", partitions: 64, number: 1 }) as const;
  const entryKey = (token: string) => {
    const digest = tokenDigest(token);
    return partitionPrefix(environment(), partitionOf(environment(), digest)) + KEY.foreign + digest;
  };
  /** What is there must be whole: one current token, and those that were handed out before are dead or on their grace. */
  const settle = async (userGroupId: string, handedOut: ReadonlySet<string>) => {
    const { userGroup } = await worker(0).groups.getUserGroup({ userGroupId });
    const token = userGroup?.token ?? "";
    for (const { viewers } of workers) {
      const viewer = await viewers.resolveViewer({ token });
      expect([viewer.providedId, viewer.teamId, viewer.tokenExpireTime]).toEqual([
        userGroupId,
        userGroup?.teamId,
        undefined,
      ]);
    }
    let alive = 0;
    for (const old of handedOut) {
      if (old === token) continue;
      const viewer = await worker(1)
        .viewers.resolveViewer({ token: old })
        .catch(() => undefined);
      if (viewer === undefined) continue;
      expect([viewer.providedId, viewer.teamId]).toEqual([userGroupId, userGroup?.teamId]);
      expect(viewer.tokenExpireTime).toBeDefined();
      alive++;
    }
    expect(alive).toBeLessThanOrEqual(1);
    await worker(0).admin.revokeUserGroupTokens({ userGroupId });
    for (const old of [token, ...handedOut]) {
      expect(await failureOf(worker(1).viewers.resolveViewer({ token: old }))).toMatchObject({
        reason: "TOKEN_NOT_FOUND",
      });
    }
  };

  it("delete, get, rotate, revoke and import one group at once", async () => {
    for (let round = 0; round < 4; round++) {
      const userGroupId = `fought over ${round}`;
      const tokens = new Set<string>();
      const note = (answer: { userGroup?: { token: string } | undefined }) => tokens.add(answer.userGroup?.token ?? "");
      const group = { case: "userGroupId", value: userGroupId } as const;
      await spread(120, async ({ groups, admin }, i) => {
        // Each kind is made by both workers.
        switch (Math.floor(i / 2) % 5) {
          case 0:
            return note(await groups.getUserGroup({ userGroupId }));
          case 1:
            return note(
              await groups.rotateUserGroupToken({ group, previousTokenTtl: HOUR, requestId: `${round}-${i}` }),
            );
          case 2:
            return admin.deleteUserGroup({ userGroupId });
          case 3:
            return admin.revokeUserGroupTokens({ userGroupId });
          default: {
            const token = newToken();
            const { results } = await admin.importUserGroups({
              userGroups: [{ providedId: userGroupId, token, name: `by ${i}` }],
              mode: UPSERT,
              snapshotTime: timestampNow(),
              previousTokenTtl: i % 2 === 0 ? HOUR : { seconds: 0n },
            });
            const [result] = results;
            tokens.add(token);
            if (result?.outcome === Outcome.FAILED) expect(result.failure?.outcome).toBe("not_made");
            return undefined;
          }
        }
      });
      await settle(userGroupId, tokens);
    }
    await isSound();
  });

  it("move one token between groups that are deleted and imported all the time: it is of one at most", async () => {
    const token = newToken();
    const ids = ["mover a", "mover b", "mover c"];
    await spread(90, async ({ admin }, i) => {
      const providedId = ids[i % 3] as string;
      if (i % 5 === 4) return admin.deleteUserGroup({ userGroupId: providedId });
      return admin.importUserGroups({
        userGroups: [{ providedId, token }],
        mode: UPSERT,
        snapshotTime: timestampNow(),
      });
    });
    await isSound();
    const holders: string[] = [];
    for (const userGroupId of ids) {
      const { userGroup } = await worker(0).groups.getUserGroup({ userGroupId });
      if (userGroup?.token === token) holders.push(userGroupId);
    }
    expect(holders.length).toBeLessThanOrEqual(1);
    const viewer = await worker(1)
      .viewers.resolveViewer({ token })
      .catch(() => undefined);
    expect(viewer?.providedId).toBe(holders[0]);
    for (const userGroupId of ids) await worker(0).admin.deleteUserGroup({ userGroupId });
    // And it is free in the end, in minutes at the latest.
    const operator = operatorOf();
    const entry = await operator.get(entryKey(token));
    if (entry !== null) await operator.set(entryKey(token), `1${entry.slice(entry.indexOf(":"))}`);
    const { results } = await worker(1).admin.importUserGroups({
      userGroups: [{ providedId: "mover d", token }],
      snapshotTime: timestampNow(),
    });
    expect(results[0]?.outcome).toBe(Outcome.CREATED);
    expect((await worker(0).viewers.resolveViewer({ token })).providedId).toBe("mover d");
  });
}
