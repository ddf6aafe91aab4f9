import { forSuite } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { beforeAll, expect, it } from "vitest";
import type { Environment } from "../src/domain/environment.ts";
import { StoreUnavailable, ViewerSessionEnded } from "../src/domain/errors.ts";
import { apiTokenDigest, environmentNumberOf, newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import type { UserGroup } from "../src/domain/user-group.ts";
import { byId, byToken, fails, foreignToken, imported, newGroup, newName, RING } from "./support/contract/context.ts";
import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, suiteProxy, suiteRedis } from "./support/opened.ts";
import { testApiTokens, testEnvironments, testUserGroupAdmin, testUserGroups } from "./support/stores.ts";

// A proxy forwards only a given number of round trips, and then delays all requests. If a call needs more round trips
// than the test allows, the call times out.
describeWithRedis("round trips to a real Redis", () => {
  let environment: Environment;
  const proxy = suiteProxy(suiteRedis());
  const client = forSuite(
    () => openRedis(proxy.url, { timeoutMs: 2000 }),
    (opened) => opened.close(),
  );
  let store: ReturnType<typeof testUserGroups>;
  let group: UserGroup;

  beforeAll(async () => {
    store = testUserGroups(client, RING);
    environment = await testEnvironments(client).create({ name: newName(), tag: "Customer" });
  });

  /** Runs a call with a limit of round trips. @returns the number of round trips that the call has started */
  async function within(trips: number, call: () => Promise<unknown>): Promise<number> {
    proxy.allow(trips);
    try {
      await call();
      return proxy.trips();
    } finally {
      proxy.allow(Number.POSITIVE_INFINITY);
      // If the call did not finish, the client closes the connection and opens a new connection.
      await waitFor("the client is connected again", () =>
        client.check("reads").then(
          () => true,
          () => false,
        ),
      );
    }
  }

  const others = () => Array.from({ length: 40 }, (_, i) => imported(`other ${i}`, { token: undefined }));

  const session = () => ({ providedId: "a", teamId: group.teamId, generation: 0, viewerId: "bob" });

  const create = async () => {
    ({ group } = await store.getOrCreate(environment, newGroup("a")));
  };

  it.each<[string, () => Promise<unknown>]>([
    ["Get of an existing group", () => store.getOrCreate(environment, newGroup("a"))],
    ["Update", () => store.update(environment, "a", { name: "N", properties: null })],
    ["Update with an etag", () => store.update(environment, "a", { name: "M" }, group.etag)],
    ["Rotate by id", () => store.rotate(environment, byId("a"))],
    ["Rotate by id with a grace period", () => store.rotate(environment, byId("a", { graceMs: 60_000 }))],
    ["Rotate by token", () => store.rotate(environment, byToken(group.token))],
    ["Rotate by token with a grace period", () => store.rotate(environment, byToken(group.token, { graceMs: 60_000 }))],
    ["Resolve", () => store.resolve(environment, group.token)],
    ["Resolve of a viewer session", () => store.resolveSession(environment, session())],
    ["CreateViewerSession by token", () => store.sessionSubject(environment, byToken(group.token).target)],
    ["CreateViewerSession by id", () => store.sessionSubject(environment, byId("a").target)],
    ["the readiness check for reads", () => client.check("reads")],
    ["the readiness check for changes", () => client.check("changes")],
  ])("%s needs exactly one round trip", async (_, call) => {
    await create();
    expect(await within(1, () => call().catch(unlessEnded))).toBe(1);
  });

  /**
   * Ignores the error for a revoked session. An earlier case may have revoked the session. The error also proves that
   * Redis has responded.
   */
  function unlessEnded(error: unknown): void {
    if (!(error instanceof ViewerSessionEnded)) throw error;
  }

  it("no call finishes without a round trip", async () => {
    await create();
    await fails(
      within(0, () => store.getOrCreate(environment, newGroup("a"))),
      StoreUnavailable,
    );
  });

  it("creating a group needs two round trips: a read and a creation", async () => {
    expect(await within(2, () => store.getOrCreate(environment, newGroup("new 1")))).toBe(2);
    await fails(
      within(1, () => store.getOrCreate(environment, newGroup("new 2"))),
      StoreUnavailable,
    );
  });

  it("a call by id needs one round trip even if the group has an expiry time, but two within a minute of this time", async () => {
    const admin = testUserGroupAdmin(client, RING);
    const { group: expiring } = await store.getOrCreate(environment, newGroup("expiring"));
    const calls = [
      () => store.getOrCreate(environment, newGroup("expiring")),
      () => store.sessionSubject(environment, byId("expiring").target),
    ];
    const now = Date.now();
    for (const expireTime of [now + 120_000, now - 120_000]) {
      await store.update(environment, "expiring", { expireTime });
      for (const call of calls) expect(await within(1, call)).toBe(1);
      expect(await within(1, () => store.resolve(environment, expiring.token))).toBe(1);
    }
    await store.update(environment, "expiring", { expireTime: now });
    for (const call of calls) expect(await within(2, call)).toBe(2);
    expect(await within(1, () => store.resolve(environment, expiring.token))).toBe(1);
    await store.update(environment, "expiring", { expireTime: null });
    expect(await within(1, () => admin.suspend(environment, "expiring"))).toBe(1);
    for (const call of calls) expect(await within(1, call)).toBe(1);
    expect(await within(1, () => admin.resume(environment, "expiring"))).toBe(1);
  });

  it("a rotation with a request id needs one round trip", async () => {
    await create();
    expect(await within(1, () => store.rotate(environment, byToken(group.token, { requestId: "r1" })))).toBe(1);
  });

  it("a call with an uncached issued API token needs one round trip", async () => {
    const tokens = testApiTokens(client);
    const values = { displayName: "a", role: "read", expireTime: undefined } as const;
    const { token } = await tokens.create(environment, values);
    for (const each of [token, newApiToken(environment.number)]) {
      const key = { number: environmentNumberOf(each) ?? 0, digest: apiTokenDigest(each) };
      expect(await within(1, () => tokens.find(key))).toBe(1);
    }
  });

  it("a call with an imported token needs one round trip", async () => {
    const admin = testUserGroupAdmin(client, RING);
    for (const [id, token] of [
      ["foreign", foreignToken()],
      ["ours", newUserGroupToken()],
    ] as const) {
      // For any number of groups, an import needs one round trip to read and one round trip to write.
      expect(await within(2, () => admin.import(environment, [imported(id, { token }), ...others()]))).toBe(2);
      expect(await within(1, () => store.resolve(environment, token))).toBe(1);
      expect(await within(1, () => store.resolve(environment, foreignToken()).catch(() => {}))).toBe(1);
      expect(await within(1, () => store.rotate(environment, byToken(token)))).toBe(1);
      await admin.delete(environment, id);
      for (const { providedId } of others()) await admin.delete(environment, providedId);
    }
  });

  it("a list needs two round trips for any number of groups, and other calls of operators need one round trip", async () => {
    const admin = testUserGroupAdmin(client, RING);
    await admin.import(environment, others());
    const range = { after: "", size: 20, prefix: "" };
    expect(await within(2, () => admin.list(environment, range))).toBe(2);
    expect(await within(2, () => admin.export(environment, range))).toBe(2);
    expect(await within(1, () => admin.lookUp(environment, "other 1"))).toBe(1);
    expect(await within(1, () => admin.revokeTokens(environment, "other 1"))).toBe(1);
    expect(await within(1, () => admin.delete(environment, "other 1"))).toBe(1);
  });

  it("concurrent calls share one round trip", async () => {
    await create();
    const calls = () => Array.from({ length: 50 }, () => store.getOrCreate(environment, newGroup("a")));
    expect(await within(1, () => Promise.all(calls()))).toBe(1);
  });
});
