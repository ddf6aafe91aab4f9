import { describe, expect, it } from "vitest";
import { DAY_MS } from "../../../src/domain/durations.ts";
import { type Environment, TEAM_IDS } from "../../../src/domain/environment.ts";
import { TokenNotFound, TokenNotImportable, UserGroupExists } from "../../../src/domain/errors.ts";
import type { ImportOutcome } from "../../../src/domain/store.ts";
import { newApiToken, newUserGroupToken } from "../../../src/domain/token.ts";
import type { ImportedUserGroup, ImportOptions, Json } from "../../../src/domain/user-group.ts";
import { leftovers, setGroupsEver } from "../stored-state.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  eventsOf,
  fails,
  imported,
  newEnvironment,
  newGroup,
} from "./context.ts";

/**
 * Returns the outcome of the import of each group. If the import of a group has failed, returns the name of the error
 * instead.
 */
export const reported = (outcomes: readonly ImportOutcome[]) =>
  outcomes.map((each) => (each.outcome === "failed" ? each.error.name : each.outcome));

export function importContract(context: ContractContext): void {
  describe("import", () => {
    creating(context);
    replacing(context);
    snapshots(context);
    ownTokens(context);
  });
}

function creating({ store, admin, client, redis, many, withGroup }: ContractContext): void {
  it("creates groups with their tokens, and reports one result per group", async () => {
    const environment = await newEnvironment({ tag: "Customer" });
    const groups = Array.from({ length: many(120) }, (_, i) =>
      imported(`g${i}`, { name: `N${i}`, mapping: { s: `${i}` }, ...(i % 2 && { properties: { i } }) }),
    );
    expect(reported(await admin().import(environment, groups))).toEqual(groups.map(() => "created"));
    for (const [worker, { token = "", ...given }] of groups.entries()) {
      const { group, created } = await store({ worker }).getOrCreate(environment, newGroup(given.providedId));
      expect(created).toBe(false);
      expect(group).toMatchObject({ ...given, token });
      expect(await store({ worker }).resolve(environment, token)).toMatchObject(given);
    }
  });

  it("creates a token of this service for a group without a token", async () => {
    const environment = await newEnvironment();
    expect(reported(await admin().import(environment, [imported("a", { token: undefined })]))).toEqual(["created"]);
    const { token } = await store().get(environment, "a");
    expect(token).toMatch(/^ugt_/);
    expect((await store().resolve(environment, token)).providedId).toBe("a");
  });

  it("an import changes nothing if it is repeated, even with another order of keys", async () => {
    const environment = await newEnvironment();
    const properties = { a: 1, b: { c: [1, -0, null], d: "x" } };
    const turned = { b: { d: "x", c: [1, 0, null] }, a: 1 };
    const long = { p: "y".repeat(3000) };
    const groups = [
      imported("a", { mapping: { x: "1", y: "2" }, properties }),
      imported("b", { properties: long, token: undefined }),
      imported("c", { name: "", properties: {} }),
    ];
    await admin().import(environment, groups);
    const before = await contents(redis(), environment);
    const again = [{ ...groups[0], mapping: { y: "2", x: "1" }, properties: turned }, groups[1], groups[2]];
    for (const mode of ["create-only", "upsert"] as const) {
      const outcomes = await admin({ worker: 1 }).import(environment, again as typeof groups, mode);
      expect(reported(outcomes)).toEqual(["unchanged", "unchanged", "unchanged"]);
    }
    expect(await contents(redis(), environment)).toEqual(before);
  });

  it("changes an existing group only if replacement is allowed", async () => {
    const environment = await newEnvironment();
    const { group } = await store().getOrCreate(environment, newGroup("a", { name: "A" }));
    const before = await contents(redis(), environment);
    const others = [
      imported("a", { name: "A" }),
      imported("a", { name: "B", token: undefined }),
      imported("a", { name: "A", mapping: { s: "d" }, token: undefined }),
      imported("a", { name: "A", properties: {}, token: undefined }),
    ];
    for (const other of others) {
      const [outcome] = await admin().import(environment, [other]);
      expect(outcome).toMatchObject({ outcome: "failed", error: expect.any(UserGroupExists) });
    }
    expect(await contents(redis(), environment)).toEqual(before);
    expect((await store().resolve(environment, group.token)).name).toBe("A");
  });

  it("reports the same results in a dry run, and changes nothing", async () => {
    const environment = await newEnvironment();
    const same = imported("same");
    await admin().import(environment, [same, imported("other", { name: "A" }), imported("younger")]);
    const groups = [
      imported("new", { properties: { p: 1 } }),
      same,
      imported("other", { name: "B", mapping: { s: "d" }, token: newUserGroupToken() }),
      imported("younger", { token: newUserGroupToken() }),
      imported("bad", { token: "ugt_cut" }),
    ];
    const before = await contents(redis(), environment);
    const snapshotTime = Date.now() - DAY_MS;
    const would = (how: object) => admin().import(environment, groups, { validateOnly: true, snapshotTime, ...how });
    const forced = { mode: "upsert", replaceNewerTokens: true };
    const outcomes = await would(forced);
    expect(reported(await would({}))).toEqual([
      "created",
      "unchanged",
      UserGroupExists.name,
      "token-newer",
      "TokenNotImportable",
    ]);
    expect(await contents(redis(), environment)).toEqual(before);
    expect(outcomes).toMatchObject([
      { outcome: "created", changedFields: ["name", "mapping", "properties", "token"] },
      { outcome: "unchanged", changedFields: [] },
      { outcome: "updated", changedFields: ["name", "mapping", "token"] },
      { outcome: "updated", changedFields: ["token"] },
      { outcome: "failed", error: expect.any(TokenNotImportable) },
    ]);
    expect(await admin().import(environment, groups, { snapshotTime, ...forced } as ImportOptions)).toEqual(outcomes);
  });

  it("creates a group only once if imports are concurrent", async () => {
    const environment = await newEnvironment();
    const given = imported("a", { properties: { p: 1 } });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, worker) => admin({ worker }).import(environment, [given])),
    );
    expect(outcomes.flatMap(reported).sort()).toEqual(["created", ...Array(19).fill("unchanged")]);
    expect(await eventsOf(client(), environment)).toHaveLength(1);
    expect((await store().resolve(environment, given.token ?? "")).providedId).toBe("a");
  });

  it("fails only for new groups if the environment has no free team id", async () => {
    const { environment } = await withGroup();
    await setGroupsEver(redis(), environment, TEAM_IDS);
    const outcomes = await admin().import(environment, [imported("a"), imported("b")], "upsert");
    expect(reported(outcomes)).toEqual(["updated", "EnvironmentFull"]);
  });
}

function replacing({ store, admin, client, withGroup }: ContractContext): void {
  it("replaces a group but not its team id, and revokes the old tokens if the import contains another token", async () => {
    const environment = await newEnvironment();
    const { group } = await store().getOrCreate(environment, newGroup("a", { name: "A", properties: { p: 1 } }));
    const rotated = await store().rotate(environment, byToken(group.token, { graceMs: 60_000 }));
    const given = imported("a", { name: "B", mapping: { s: "d" } });
    expect(reported(await admin().import(environment, [given], "upsert"))).toEqual(["updated"]);
    const now = await store({ worker: 1 }).get(environment, "a");
    expect(now).toMatchObject({ ...given, teamId: group.teamId, createTime: group.createTime, properties: undefined });
    expect(now.etag).not.toBe(rotated.etag);
    for (const { token } of [group, rotated]) await fails(store().resolve(environment, token), TokenNotFound);
    expect((await store().resolve(environment, given.token ?? "")).tokenExpireTime).toBeUndefined();
  });

  it("keeps the current token and the grace period if the import contains no token", async () => {
    const { environment, group } = await withGroup();
    const rotated = await store().rotate(environment, byToken(group.token, { graceMs: 60_000 }));
    const given = imported("a", { name: "B", token: undefined });
    expect(reported(await admin().import(environment, [given], "upsert"))).toEqual(["updated"]);
    expect(await store().get(environment, "a")).toMatchObject({ name: "B", token: rotated.token });
    for (const { token } of [group, rotated]) expect((await store().resolve(environment, token)).name).toBe("B");
  });

  it("can replace long values with short values, and an imported token with any other token", async () => {
    const environment = await newEnvironment();
    for (const length of [900, 20, 400, 8, 63, 64, 65]) {
      const properties = { p: "x".repeat(length) };
      const given = imported("a", { properties, token: "t".repeat(length - 8) + String(1e7 + length) });
      const [outcome] = reported(await admin().import(environment, [given], "upsert"));
      expect(["created", "updated"]).toContain(outcome);
      expect(await store().get(environment, "a")).toMatchObject({ properties, token: given.token });
    }
    await admin().import(environment, [imported("a", { token: "short-token" })], "upsert");
    await admin().import(environment, [imported("b", { token: "t".repeat(900) })]);
    const own = imported("b", { token: newUserGroupToken() });
    expect(reported(await admin().import(environment, [own], "upsert"))).toEqual(["updated"]);
    expect((await store().resolve(environment, own.token ?? "")).providedId).toBe("b");
  });

  it("does not overwrite concurrent changes", async () => {
    const { environment } = await withGroup();
    const tokens = new Set<string>();
    const work = Array.from({ length: 12 }, async (_, i) => {
      const worker = i;
      if (i % 3 === 0)
        return store({ worker }).update(environment, "a", { properties: { last: i } as Json & {} as never });
      if (i % 3 === 1)
        return store({ worker })
          .rotate(environment, byId("a"))
          .then(({ token }) => tokens.add(token));
      return admin({ worker }).import(environment, [imported("a", { name: `N${i}`, token: undefined })], "upsert");
    });
    await Promise.all(work);
    const { token } = await store().get(environment, "a");
    expect(tokens).toContain(token);
    expect((await store().resolve(environment, token)).providedId).toBe("a");
    expect(await eventsOf(client(), environment)).toHaveLength(13);
  });
}

/** Tests that `snapshotTime`, the time of the export, decides which tokens an import replaces. */
function snapshots({ store, admin, client, redis, replacements, withGroup }: ContractContext): void {
  const { UPSERT, CREATE_ONLY } = { UPSERT: "upsert", CREATE_ONLY: "create-only" } as const;
  const clockOf = async () => {
    const [seconds, microseconds] = await redis().time();
    return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
  };
  const tokenOf = async (environment: Environment) => (await store().get(environment, "a")).token;

  it("sets the creation time of an imported token to the snapshot time", async () => {
    const environment = await newEnvironment();
    const now = await clockOf();
    const dated = async (id: string, snapshotTime: number) => {
      const outcomes = await admin().import(environment, [imported(id)], { mode: UPSERT, snapshotTime });
      const { tokenCreateTime, createTime } = await store().get(environment, id);
      const { lastRotationTime } = await admin().lookUp(environment, id);
      return [reported(outcomes)[0], tokenCreateTime, lastRotationTime !== undefined, createTime >= now];
    };
    expect(await dated("a", now - DAY_MS)).toEqual(["created", now - DAY_MS, false, true]);
    expect(await dated("a", now - DAY_MS)).toEqual(["updated", now - DAY_MS, false, true]);
    expect(await dated("a", now - DAY_MS + 1)).toEqual(["updated", now - DAY_MS + 1, false, true]);
    expect(await dated("a", now - DAY_MS)).toEqual(["token-newer", now - DAY_MS + 1, false, true]);
    expect(await dated("b", 0)).toEqual(["created", 0, false, true]);
    const { group } = await store().getOrCreate(environment, newGroup("c"));
    expect(group.tokenCreateTime).toBe(group.createTime);
    const later = group.createTime + 500;
    expect(await dated("c", later)).toEqual(["updated", later, true, true]);
  });

  it.each(replacements)(
    "does not restore a token that was replaced by %s, and reports `token-newer`",
    async (_what, replace) => {
      for (const isForeign of [false, true]) {
        const environment = await newEnvironment();
        if (isForeign) await admin().import(environment, [imported("a")], { snapshotTime: 1 });
        else await store().getOrCreate(environment, newGroup("a"));
        const { items, snapshotTime } = await admin().export(environment, { after: "", size: 10, prefix: "" });
        expect(reported(await admin().import(environment, items, { mode: UPSERT, snapshotTime }))).toEqual([
          "unchanged",
        ]);
        await replace(environment);
        const now = await tokenOf(environment);
        const old = items[0]?.token ?? "";
        expect(now).not.toBe(old);
        const before = await contents(redis(), environment);
        for (const mode of [CREATE_ONLY, UPSERT, CREATE_ONLY]) {
          expect(reported(await admin().import(environment, items, { mode, snapshotTime }))).toEqual(["token-newer"]);
        }
        expect(await contents(redis(), environment)).toEqual(before);
        // If the imported group differs in other fields than the token, an upsert replaces these fields. The newer
        // token stays.
        const renamed = items.map((group) => ({ ...group, name: "restored" }));
        expect(reported(await admin().import(environment, renamed, { snapshotTime }))).toEqual(["UserGroupExists"]);
        expect(reported(await admin().import(environment, renamed, { mode: UPSERT, snapshotTime }))).toEqual([
          "token-newer",
        ]);
        expect(await store().get(environment, "a")).toMatchObject({ name: "restored", token: now });
        await store().rotate(environment, byId("a"));
        await fails(store().resolve(environment, old), TokenNotFound);
      }
    },
  );

  it("does not restore a token that was rotated immediately after the export", async () => {
    const { environment } = await withGroup();
    for (let i = 0; i < 30; i++) {
      const { items, snapshotTime } = await admin().export(environment, { after: "", size: 10, prefix: "" });
      const { token } = await store().rotate(environment, byId("a"));
      expect(reported(await admin().import(environment, items, { mode: UPSERT, snapshotTime }))).toEqual([
        "token-newer",
      ]);
      expect(await tokenOf(environment)).toBe(token);
    }
  });

  it("keeps the tokens of the latest snapshot, even if an older snapshot is imported again", async () => {
    const environment = await newEnvironment();
    const now = await clockOf();
    const days = [3, 2, 1].map((ago, i) => ({
      snapshotTime: now - ago * DAY_MS,
      groups: ["a", "b"].map((id) => imported(id, { name: `day ${i}` })),
    }));
    // In the snapshot of the last day, the group `b` has the same token as in the snapshot of the second day.
    const [first, second, third] = days as [(typeof days)[0], (typeof days)[0], (typeof days)[0]];
    third.groups[1] = { ...third.groups[1], token: second.groups[1]?.token } as ImportedUserGroup;
    const run = async ({ groups, snapshotTime }: (typeof days)[0]) =>
      reported(await admin().import(environment, groups, { mode: UPSERT, snapshotTime }));
    expect(await run(first)).toEqual(["created", "created"]);
    expect(await run(second)).toEqual(["updated", "updated"]);
    expect(await run(third)).toEqual(["updated", "updated"]);
    expect(await run(first)).toEqual(["token-newer", "token-newer"]);
    expect(await run(third)).toEqual(["updated", "updated"]);
    expect(await run(third)).toEqual(["unchanged", "unchanged"]);
    for (const { providedId, token = "", name } of third.groups) {
      expect(await store().get(environment, providedId)).toMatchObject({ token, name });
      expect((await store().resolve(environment, token)).providedId).toBe(providedId);
    }
    for (const { token = "" } of [...first.groups, ...second.groups.slice(0, 1)]) {
      await fails(store().resolve(environment, token), TokenNotFound);
    }
  });

  it("replaces a token that is newer than the snapshot only if `replaceNewerTokens` is true", async () => {
    const environment = await newEnvironment();
    const snapshotTime = (await clockOf()) - DAY_MS;
    const given = imported("a");
    const own = (await store().getOrCreate(environment, newGroup("a"))).group;
    const replace = { mode: UPSERT, snapshotTime, replaceNewerTokens: true };
    expect(reported(await admin().import(environment, [given], { snapshotTime }))).toEqual(["token-newer"]);
    expect(reported(await admin().import(environment, [given], { ...replace, mode: CREATE_ONLY }))).toEqual([
      "UserGroupExists",
    ]);
    expect(reported(await admin().import(environment, [given], replace))).toEqual(["updated"]);
    expect((await store().resolve(environment, given.token ?? "")).providedId).toBe("a");
    await fails(store().resolve(environment, own.token), TokenNotFound);
    // The imported token has the creation time of the token that it has replaced. So imports of snapshots that are
    // older than this time do not replace the imported token.
    for (const time of [snapshotTime, snapshotTime + 1000, own.tokenCreateTime - 1]) {
      const outcomes = await admin().import(environment, [imported("a")], { mode: UPSERT, snapshotTime: time });
      expect(reported(outcomes)).toEqual(["token-newer"]);
    }
    expect(reported(await admin().import(environment, [given], { mode: UPSERT, snapshotTime }))).toEqual(["unchanged"]);
    const [event] = await eventsOf(client(), environment);
    expect(event?.changedFields).toEqual(["token", "replace_newer_tokens"]);
  });

  it("restores the token of a deleted group, but not the token of a group that was created again", async () => {
    const environment = await newEnvironment();
    const given = imported("a");
    const snapshotTime = (await clockOf()) - DAY_MS;
    await admin().import(environment, [given], { snapshotTime });
    await admin().delete(environment, "a");
    expect(reported(await admin().import(environment, [given], { snapshotTime }))).toEqual(["created"]);
    expect((await store().resolve(environment, given.token ?? "")).providedId).toBe("a");
    await admin().delete(environment, "a");
    const { group } = await store().getOrCreate(environment, newGroup("a"));
    expect(reported(await admin().import(environment, [given], { mode: UPSERT, snapshotTime }))).toEqual([
      "token-newer",
    ]);
    expect(await tokenOf(environment)).toBe(group.token);
    await fails(store().resolve(environment, given.token ?? ""), TokenNotFound);
  });

  it("can give the replaced token a grace period, which ends with the next replacement", async () => {
    const { environment, group } = await withGroup();
    const [first, second] = [imported("a"), imported("a")];
    const graceMs = 60_000;
    await admin().import(environment, [first], { mode: UPSERT, graceMs });
    const inGrace = await store().resolve(environment, group.token);
    expect(Math.abs((inGrace.tokenExpireTime ?? 0) - (await clockOf()) - graceMs)).toBeLessThan(10_000);
    await admin().import(environment, [second], { mode: UPSERT, graceMs });
    await fails(store().resolve(environment, group.token), TokenNotFound);
    expect((await store().resolve(environment, first.token ?? "")).tokenExpireTime).toBeDefined();
    expect((await store().resolve(environment, second.token ?? "")).tokenExpireTime).toBeUndefined();
    // If an import contains the current token of the group, the grace period of the old token does not change.
    await admin().import(environment, [{ ...second, name: "B" }], { mode: UPSERT });
    expect((await store().resolve(environment, first.token ?? "")).name).toBe("B");
    await admin().import(environment, [imported("a")], { mode: UPSERT });
    for (const { token = "" } of [first, second]) await fails(store().resolve(environment, token), TokenNotFound);
  });
}

function ownTokens({ store, admin, redis, withGroup }: ContractContext): void {
  it("accepts a token in the format of this service only if its checksum is valid", async () => {
    const environment = await newEnvironment();
    const ours = newUserGroupToken();
    for (const token of [
      ours.slice(0, -1),
      `${ours}x`,
      ours.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
      newApiToken(),
      newApiToken().slice(0, -1),
      "ugt_",
      "ugk_12345",
    ]) {
      const [outcome] = await admin().import(environment, [imported("a", { token })], "upsert");
      expect(outcome).toMatchObject({ outcome: "failed", error: expect.any(TokenNotImportable) });
    }
    expect(await leftovers(redis(), environment)).toEqual([]);
    expect(reported(await admin().import(environment, [imported("a", { token: ours })]))).toEqual(["created"]);
    expect((await store().resolve(environment, ours)).providedId).toBe("a");
    const rotated = await store().rotate(environment, byToken(ours));
    await fails(store().resolve(environment, ours), TokenNotFound);
    expect((await store().resolve(environment, rotated.token)).providedId).toBe("a");
  });

  it("does not assign a token of another group, even if that token is in its grace period", async () => {
    const { environment, group } = await withGroup();
    const given = imported("b", { token: group.token });
    expect(reported(await admin().import(environment, [given]))).toEqual(["TokenTaken"]);
    const rotated = await store().rotate(environment, byToken(group.token, { graceMs: 60_000 }));
    expect(reported(await admin().import(environment, [given]))).toEqual(["TokenTaken"]);
    await store().rotate(environment, byToken(rotated.token));
    expect(reported(await admin().import(environment, [given]))).toEqual(["created"]);
    expect((await store().resolve(environment, group.token)).providedId).toBe("b");
  });
}
