import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import type { Environment } from "../../src/domain/environment.ts";
import { StoreUnavailable } from "../../src/domain/errors.ts";
import { apiTokenDigest } from "../../src/domain/token.ts";
import { redisAuditTrail } from "../../src/store/audit-trail.ts";
import { slotOf } from "../../src/store/connection/cluster.ts";
import { TokenCipher } from "../../src/store/encryption.ts";
import { redisSigningKeys } from "../../src/store/secret-keys/signing-keys.ts";
import { byId, byToken, contents, fails, newGroup, newName, RING } from "../support/contract/context.ts";
import { describeWithRedis, newStoreClient, suiteCluster, suiteClusterOperator } from "../support/opened.ts";
import { ask, type TestRedis } from "../support/redis.ts";
import { succeeds } from "../support/rpc.ts";
import { keysOf } from "../support/stored-state.ts";
import { AUDIT, BY, testApiTokens, testEnvironments, testUserGroupAdmin, testUserGroups } from "../support/stores.ts";

describeWithRedis("a Cluster", () => {
  const cluster = suiteCluster();
  const operator = suiteClusterOperator(cluster);

  const open = async (timeoutMs = 5000) => {
    const client = await newStoreClient(cluster, { timeoutMs });
    return { client, store: testUserGroups(client, RING) };
  };

  it("assigns each key to the slot that the client computes", async () => {
    const keys = ["a", "{a}b", "b{a}c{d}", "{}a", "a{b", "a}{b}", "é{é}", "ug:{123}:group:{x}"];
    const [node] = cluster.nodes as [TestRedis];
    expect(keys.map(slotOf)).toEqual(await Promise.all(keys.map((key) => ask(node, "CLUSTER", "KEYSLOT", key))));
  });

  it("stores each environment on one master, and uses every master", async () => {
    const { client, store } = await open();
    const masters = new Set<TestRedis>();
    for (let i = 0; i < 40; i++) {
      const environment = await testEnvironments(client).create({ name: newName(), tag: undefined });
      const ids = ["a", "b", "c"];
      for (const id of ids) expect((await store.getOrCreate(environment, newGroup(id))).created).toBe(true);
      const own = new Set(await Promise.all(ids.map((id) => cluster.masterOf(keysOf(environment, id).group))));
      expect(own.size).toBe(1);
      for (const master of own) masters.add(master);
    }
    expect(masters.size).toBe(3);
  });

  it("returns existing groups while their slot moves, and writes one event per change", async () => {
    const { store, client } = await open(500);
    const environment = await testEnvironments(client).create({ name: newName(), tag: undefined });
    const updated: string[] = [];
    const unsure: string[] = [];
    const made = await Promise.all(["a", "b"].map((id) => store.getOrCreate(environment, newGroup(id))));
    const { prefix } = keysOf(environment, "");
    const move = await cluster.beginMove(prefix, await cluster.otherThan(prefix));
    for (let left = 5; left > 0; left--) {
      for (const { group } of made) {
        const { providedId, token } = group;
        expect((await store.getOrCreate(environment, newGroup(providedId))).group.teamId).toBe(group.teamId);
        // During the move, the keys of a command can be on two nodes. In this case, Redis refuses the command.
        const by = { ...BY, requestId: `${providedId}, left ${left}` };
        await store.update(environment, providedId, { name: by.requestId }, "", by).then(
          ({ name }) => updated.push(name),
          (error: unknown) => {
            expect(error).toBeInstanceOf(StoreUnavailable);
            if ((error as StoreUnavailable).outcome === "unknown") unsure.push(by.requestId);
          },
        );
        expect((await store.resolve(environment, token)).providedId).toBe(providedId);
      }
      await expectOrUnavailable(store.rotate(environment, byToken("ugt_".padEnd(42, "0"))), () =>
        expect.fail("rotated"),
      );
      await move.keys(1);
    }
    await expectOrUnavailable(store.getOrCreate(environment, newGroup("new")), () => {});
    await move.finish();
    const { group } = await store.getOrCreate(environment, newGroup("new"));
    expect(made.map((each) => each.group.teamId)).not.toContain(group.teamId);
    const { items } = await redisAuditTrail(client, AUDIT).list([environment], {}, { after: "", size: 100 });
    const audited = items.filter(({ changedFields }) => changedFields.join() === "name");
    const certain = audited.map(({ requestId }) => requestId).filter((id) => !unsure.includes(id));
    expect(certain.sort()).toEqual([...updated].sort());
    const { token } = await store.rotate(environment, byId("a", { graceMs: 60_000 }));
    expect((await store.resolve(environment, token)).providedId).toBe("a");
  });

  it("refuses every change but answers reads while the slot of an environment moves, and accepts the changes afterwards", async () => {
    const { store, client } = await open(500);
    const [environments, tokens] = [testEnvironments(client), testApiTokens(client)];
    const admin = testUserGroupAdmin(client, RING);
    const environment = await environments.create({ name: newName(), tag: undefined });
    for (const id of ["a", "b"]) await store.getOrCreate(environment, newGroup(id));
    const values = { displayName: "x", role: "admin", expireTime: undefined } as const;
    const { apiToken, token } = await tokens.create(environment, values);
    const keys = redisSigningKeys({ client, cipher: new TokenCipher(RING), audit: AUDIT });
    const importOf = async (id: string) => {
      const groups = [{ ...newGroup(id, { name: "imported" }), token: undefined }];
      const [result] = await admin.import(environment, groups, "upsert");
      if (result?.outcome === "failed") throw result.error;
    };
    // The deletions are last because the other changes need the group and the environment.
    const changes: readonly (() => Promise<unknown>)[] = [
      () => store.getOrCreate(environment, newGroup("new")),
      () => store.update(environment, "a", { name: "other" }),
      () => store.rotate(environment, byId("a", { requestId: "r" })),
      () => admin.revokeTokens(environment, "a", "r2"),
      () => admin.endSessions(environment, { providedId: "a", viewerId: "bob" }, BY),
      () => admin.endSessions(environment, { providedId: "a", viewerId: undefined }, BY),
      () => importOf("a"),
      () => importOf("imported"),
      () => keys.replace(environment, [], { was: "", by: BY }),
      () => tokens.create(environment, values),
      () => tokens.update(environment, apiToken.id, { displayName: "y" }),
      () => tokens.rotate(environment, apiToken.id, { graceMs: 60_000 }),
      () => tokens.revoke(environment, apiToken.id),
      () => admin.delete(environment, "a"),
      () => environments.delete(environment, true),
    ];
    const { prefix } = keysOf(environment, "");
    // The move has begun, but every key is still on the first master. In this state, Redis refuses only reads of keys
    // that do not exist. So a script runs until it reads such a key.
    const move = await cluster.beginMove(prefix, await cluster.otherThan(prefix));
    const stored = async () => (await contents(operator, environment)) as object;
    const before = await stored();
    for (const change of changes) {
      await fails(change(), StoreUnavailable);
      expect(await stored()).toEqual(before);
      const found = await tokens.find({ number: environment.number, digest: apiTokenDigest(token) });
      expect(found?.apiToken).toEqual(apiToken);
      expect((await store.get(environment, "a")).providedId).toBe("a");
    }
    await move.finish();
    for (const change of changes) await change();
  });

  it("runs scripts again after SCRIPT FLUSH", async () => {
    const { client, store } = await open();
    const environment = await testEnvironments(client).create({ name: newName(), tag: undefined });
    for (let round = 0; round < 20; round++) {
      await Promise.all(cluster.nodes.map((node) => ask(node, "SCRIPT", "FLUSH")));
      const ids = Array.from({ length: 20 }, (_, i) => `group ${round} ${i}`);
      await Promise.all(ids.map((id) => store.getOrCreate(environment, newGroup(id))));
      await Promise.all(ids.map((id) => store.update(environment, id, { name: "N" })));
      await Promise.all(ids.map((id) => store.rotate(environment, byId(id))));
    }
  });

  it("answers calls to other masters while one master hangs, and calls to this master when it resumes", async () => {
    const { client, store } = await open(1000);
    const ids = Array.from({ length: 20 }, (_, i) => `environment ${i}`);
    const environments = new Map<string, Environment>();
    for (const id of ids)
      environments.set(id, await testEnvironments(client).create({ name: newName(), tag: undefined }));
    const of = (id: string) => environments.get(id) as Environment;
    await Promise.all(ids.map((id) => store.getOrCreate(of(id), newGroup("a"))));
    const masters = await Promise.all(ids.map((id) => cluster.masterOf(keysOf(of(id), "a").group)));
    const hung = masters[0];
    const at = (isHung: boolean) => ids.filter((_, i) => (masters[i] === hung) === isHung);
    const get = (id: string) => store.getOrCreate(of(id), newGroup("a"));
    let waiting = 0;
    let most = 0;
    const failures: Promise<unknown>[] = [];
    hung?.freeze();
    try {
      for (let i = 0; i < 100; i++) {
        for (const id of Array.from({ length: 24 }, () => at(true)).flat()) {
          most = Math.max(most, ++waiting);
          failures.push(
            get(id)
              .catch((error: unknown) => error)
              .finally(() => waiting--),
          );
        }
        await Promise.all(at(false).map(get));
        await client.check("reads");
        await pause(10);
      }
    } finally {
      hung?.thaw();
    }
    const errors = (await Promise.all(failures)).filter((outcome) => outcome instanceof Error);
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) expect(error).toBeInstanceOf(StoreUnavailable);
    // The number of calls must be much larger than the number of calls that the client queues for one master.
    expect(failures.length).toBeGreaterThan(10_000);
    expect(most).toBeLessThan(2500);
    await waitFor("the master answers again", () => succeeds(Promise.all(at(true).map(get))));
    await cluster.whole();
  });
});

async function expectOrUnavailable<T>(call: Promise<T>, check: (value: T) => void): Promise<void> {
  const answer = await call.catch((error: unknown) => error);
  if (!(answer instanceof Error)) check(answer as T);
  else if (!(answer instanceof StoreUnavailable) && answer.name !== "TokenNotFound") throw answer;
  else if (answer instanceof StoreUnavailable) expect(answer.outcome ?? "not_made").toBe("not_made");
}
