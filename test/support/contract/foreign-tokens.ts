import type { ScriptedRedis } from "@user-group-service/redis";
import { Random } from "@user-group-service/testing/random";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it, vi } from "vitest";
import { partitionOf } from "../../../src/domain/environment.ts";
import { StoreUnavailable, TokenNotFound, TokenTaken, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { newUserGroupToken, userGroupTokenShape } from "../../../src/domain/token.ts";
import type { ImportedUserGroup } from "../../../src/domain/user-group.ts";
import { tokenDigest } from "../../../src/store/encryption/encryption.ts";
import { CLAIM_MS, claimToken, tokenPartition } from "../../../src/store/groups/foreign-tokens.ts";
import { WRITE_GROUP } from "../../../src/store/groups/imports.ts";
import { KEY, partitionPrefix } from "../../../src/store/keys.ts";
import type { StoreClient } from "../../../src/store/redis/client.ts";
import { testUserGroupAdmin } from "../stores.ts";
import {
  byId,
  byToken,
  type ContractContext,
  failingAt,
  fails,
  foreignToken,
  heldUpAt,
  imported,
  newEnvironment,
  newGroup,
  oneWins,
  RING,
} from "./context.ts";
import { told } from "./imports.ts";

const MINUTE_MS = 60_000;

/** An import that gives every token. */
const EVERY = { mode: "upsert", replaceNewerTokens: true } as const;
const HOUR_MS = 3_600_000;

type Environment = ReturnType<typeof newEnvironment>;

/** Where the entry of a token is. */
function entryKey(environment: Environment, token: string): string {
  const digest = tokenDigest(token);
  return partitionPrefix(environment, tokenPartition(environment, token, digest)) + KEY.foreign + digest;
}

/** Makes the entry of a token older than any change under it can be, if there is one. */
async function makeOld(redis: ScriptedRedis, environment: Environment, token: string, ageMs = 10 * MINUTE_MS) {
  const key = entryKey(environment, token);
  const entry = await redis.get(key);
  if (entry === null) return;
  const left = await redis.pttl(key);
  await redis.set(key, `${Date.now() - ageMs}${entry.slice(entry.indexOf(":"))}`);
  if (left > 0) await redis.pexpire(key, left);
}

/** Tokens of other systems, and the entries that lead to their groups. */
export function foreignTokenContract(context: ContractContext): void {
  describe("a token of another system", () => {
    using(context);
    entries(context);
    ofOtherCounts(context);
    claims(context);
  });
}

function using({ store, admin, redis }: ContractContext): void {
  const create = async (id = "a") => {
    const environment = newEnvironment();
    const given = imported(id, { name: "A" });
    await admin().import(environment, [given]);
    return { environment, token: given.token ?? "" };
  };

  it("resolves on every worker, and shows changes made after it was imported", async () => {
    const { environment, token } = await create();
    await store().update(environment, "a", { name: "B" });
    for (const worker of [0, 1]) {
      expect(await store({ worker }).resolve(environment, token)).toMatchObject({ providedId: "a", name: "B" });
    }
    expect((await store().get(environment, "a")).token).toBe(token);
  });

  it("ends when it is rotated, and nothing of it is left", async () => {
    for (const by of [byToken, () => byId("a")]) {
      const { environment, token } = await create();
      const rotated = await store({ worker: 1 }).rotate(environment, by(token));
      expect(rotated).toMatchObject({ providedId: "a", name: "A", token: expect.stringMatching(/^ugt_/) });
      await fails(store().resolve(environment, token), TokenNotFound);
      await fails(store().rotate(environment, byToken(token)), TokenNotFound);
      expect((await store().resolve(environment, rotated.token)).providedId).toBe("a");
      await waitFor("its entry is gone", async () => (await redis().exists(entryKey(environment, token))) === 0);
    }
  });

  it("is rotated once by many at once", async () => {
    const { environment, token } = await create();
    const calls = Array.from({ length: 30 }, (_, worker) => store({ worker }).rotate(environment, byToken(token)));
    const won = await oneWins(calls, TokenNotFound);
    expect((await store().get(environment, "a")).token).toBe(won.token);
  });

  it("has its grace, within which no other group gets it", async () => {
    const { environment, token } = await create();
    const rotated = await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
    const until = (await store().resolve(environment, token)).tokenExpireTime ?? 0;
    expect(until).toBeLessThanOrEqual(rotated.tokenCreateTime + HOUR_MS);
    expect(until).toBeGreaterThan(rotated.tokenCreateTime + HOUR_MS - 100);
    await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    expect(await redis().pttl(entryKey(environment, token))).toBeGreaterThan(HOUR_MS - MINUTE_MS);
  });

  it("ends with its grace, and may be another group's then", async () => {
    const { environment, token } = await create();
    const graceMs = 500;
    const { tokenCreateTime } = await store().rotate(environment, byToken(token, { graceMs }));
    await waitFor("the grace ends", () =>
      store()
        .resolve(environment, token)
        .then(
          () => false,
          (error) => error instanceof TokenNotFound,
        ),
    );
    // However long a busy machine takes to ask, it is not refused before its time.
    expect(Date.now()).toBeGreaterThanOrEqual(tokenCreateTime + graceMs - 1);
    await waitFor(
      "its entry will end by itself",
      async () => (await redis().pttl(entryKey(environment, token))) !== -1,
    );
    await makeOld(redis(), environment, token);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
    expect((await store().resolve(environment, token)).providedId).toBe("b");
    expect(await redis().pttl(entryKey(environment, token))).toBe(-1);
  });

  it("becomes the current one again when it is imported for its group on its grace", async () => {
    const { environment, token } = await create();
    const other = foreignToken();
    await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    for (const given of [other, token]) {
      expect(told(await admin().import(environment, [imported("a", { name: "A", token: given })], "upsert"))).toEqual([
        "updated",
      ]);
    }
    expect((await store().resolve(environment, token)).tokenExpireTime).toBeUndefined();
    await fails(store().resolve(environment, other), TokenNotFound);
    await waitFor("the other's entry is gone", async () => (await redis().exists(entryKey(environment, other))) === 0);
    expect(await redis().pttl(entryKey(environment, token))).toBe(-1);
  });

  it("is answered for again when its rotation is repeated under its request id", async () => {
    const { environment, token } = await create();
    const rotation = byToken(token, { requestId: "r" });
    const first = await store().rotate(environment, rotation);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    for (const worker of [0, 1]) expect(await store({ worker }).rotate(environment, rotation)).toEqual(first);
    expect(await redis().pttl(entryKey(environment, token))).toBeGreaterThan(23 * HOUR_MS);
    await fails(store().resolve(environment, token), TokenNotFound);
  });

  it("has all of its grace, also when its rotation has a request id, or an import replaces it", async () => {
    const graceMs = 48 * HOUR_MS;
    const replacements = [
      (environment: Environment, token: string) =>
        store().rotate(environment, byToken(token, { requestId: "r", graceMs })),
      (environment: Environment) => admin().import(environment, [imported("a")], { mode: "upsert", graceMs }),
    ];
    for (const replace of replacements) {
      const { environment, token } = await create();
      await replace(environment, token);
      const left = () => redis().pttl(entryKey(environment, token));
      await waitFor("its entry will end by itself", async () => (await left()) > 0);
      expect(await left()).toBeGreaterThan(graceMs);
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeGreaterThan(Date.now() + 47 * HOUR_MS);
    }
  });

  it("is of one environment", async () => {
    const { environment, token } = await create();
    const other = newEnvironment({ name: environment.name, tag: "Testing" });
    await fails(store().resolve(other, token), TokenNotFound);
    await fails(store().rotate(other, byToken(token)), TokenNotFound);
    expect(told(await admin().import(other, [imported("b", { token })]))).toEqual(["created"]);
    expect((await store().resolve(other, token)).providedId).toBe("b");
    expect((await store().resolve(environment, token)).providedId).toBe("a");
  });
}

function entries({ store, admin, redis, withGroup }: ContractContext): void {
  it("that an entry alone leads to finds nothing", async () => {
    const { environment, group } = await withGroup();
    const token = foreignToken();
    for (const id of ["a", "gone"]) {
      await redis().set(entryKey(environment, token), `1:${id}`);
      await fails(store().resolve(environment, token), TokenNotFound);
      await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    }
    expect((await store().get(environment, "a")).token).toBe(group.token);
    // And it hinders no import.
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
  });

  it("that has lost its entry is found again when the import is repeated", async () => {
    const environment = newEnvironment();
    const given = imported("a");
    const token = given.token ?? "";
    await admin().import(environment, [given]);
    for (const wrong of [undefined, "1:b", "1:a", "", "x", "b", ":"]) {
      if (wrong === undefined) await redis().del(entryKey(environment, token));
      else await redis().set(entryKey(environment, token), wrong);
      expect(told(await admin().import(environment, [given]))).toEqual(["unchanged"]);
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    }
  });
}

/** Tokens of our own shape that do not lead to the partition of their group. */
function ofOtherCounts({ store, admin, redis, many }: ContractContext): void {
  const homeOf = (environment: Environment, token: string) => {
    const shape = userGroupTokenShape(token);
    return shape.kind === "ours" && shape.partition < environment.partitions ? shape.partition : undefined;
  };

  it.each([
    [64, 8],
    [8, 64],
    [64, 63],
    [64, 64],
  ])("of this service, exported from %i partitions, is imported into %i", async (from, to) => {
    const source = newEnvironment({ partitions: from });
    const ids = Array.from({ length: many(40) }, (_, i) => `g${i}`);
    await Promise.all(ids.map((id) => store().getOrCreate(source, newGroup(id, { properties: { id } }))));
    await admin().import(source, [imported("foreign")]);
    const { items } = await admin().export(source, { after: "", size: 100, prefix: "" });
    const environment = newEnvironment({ partitions: to });
    expect(told(await admin().import(environment, items))).toEqual(items.map(() => "created"));
    expect(told(await admin().import(environment, items, "upsert"))).toEqual(items.map(() => "unchanged"));
    const { items: listed } = await admin().list(environment, { after: "", size: 100, prefix: "" });
    let foreign = 0;
    for (const [i, { token, providedId }] of items.entries()) {
      const isForeign = homeOf(environment, token) !== partitionOf(environment, providedId);
      if (isForeign) foreign++;
      expect(listed[i]).toMatchObject({ providedId, hasForeignToken: isForeign });
      expect((await store({ worker: i }).resolve(environment, token)).providedId).toBe(providedId);
      expect((await store().get(environment, providedId)).token).toBe(token);
      expect(told(await admin().import(environment, [imported("other", { token })]))).toEqual(["TokenTaken"]);
      const rotation = byToken(token, { requestId: `r${i}`, graceMs: HOUR_MS });
      const rotated = await store({ worker: i }).rotate(environment, rotation);
      expect(await store().rotate(environment, rotation)).toEqual(rotated);
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeDefined();
      await admin().revokeTokens(environment, providedId);
      await fails(store().resolve(environment, token), TokenNotFound);
      await fails(store().rotate(environment, byToken(rotated.token)), TokenNotFound);
    }
    // That of another system is so everywhere, those of this service where their groups moved.
    expect(foreign > 1).toBe(from !== to);
  });

  it("of this service is of one group, whether its entry or the index of its partition leads to it", async () => {
    const environment = newEnvironment({ partitions: 2 });
    const ids = Array.from({ length: 30 }, (_, i) => `g${i}`);
    const [home, away] = [0, 1].map((partition) => ids.find((id) => partitionOf(environment, id) === partition));
    for (const [first = "", second = ""] of [
      [home, away],
      [away, home],
    ]) {
      const token = newUserGroupToken(0);
      const imports = (id: string) => admin().import(environment, [imported(id, { token })], "upsert");
      await imports(first);
      expect(told(await imports(second))).toEqual(["TokenTaken"]);
      await makeOld(redis(), environment, token);
      expect(told(await imports(second))).toEqual(["TokenTaken"]);
      await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
      expect(told(await imports(second))).toEqual(["TokenTaken"]);
      await admin().revokeTokens(environment, first);
      await makeOld(redis(), environment, token);
      expect(told(await imports(second))[0]).toMatch(/created|updated/);
      expect((await store().resolve(environment, token)).providedId).toBe(second);
    }
  });
}

function claims({ store, admin, client, redis }: ContractContext): void {
  const claim = (environment: Environment, token: string, id = "a", worker = 0) => {
    return claimToken(client(worker), environment, id, { text: token, digest: tokenDigest(token), isGiven: true });
  };
  const entryOf = (environment: Environment, token: string) => redis().get(entryKey(environment, token));

  it.each([
    ["it is imported for at once", false],
    ["take over at once what an import left behind", true],
  ])("goes to one of the groups that %s", async (_what, isLeft) => {
    for (let round = 0; round < 8; round++) {
      const environment = newEnvironment();
      const token = foreignToken();
      const ids = ["a", "b", "gone", "c"];
      if (isLeft) {
        await claim(environment, token, "gone");
        await makeOld(redis(), environment, token);
      }
      const outcomes = await Promise.all(
        ids.map((id, worker) => admin({ worker }).import(environment, [imported(id, { token })])),
      );
      const results = outcomes.flatMap(told);
      expect([...results].sort()).toEqual(["TokenTaken", "TokenTaken", "TokenTaken", "created"]);
      expect((await store().resolve(environment, token)).providedId).toBe(ids[results.indexOf("created")]);
      expect((await admin().list(environment, { after: "", size: 9, prefix: "" })).items).toHaveLength(1);
    }
  });

  it("that an import left behind is blocked for minutes, for other groups, and no longer", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    await claim(environment, token);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
    await makeOld(redis(), environment, token, 2 * MINUTE_MS);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
    await makeOld(redis(), environment, token);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
    expect((await store().resolve(environment, token)).providedId).toBe("b");
    const again = foreignToken();
    await claim(environment, again, "c");
    expect(told(await admin().import(environment, [imported("c", { token: again })]))).toEqual(["created"]);
  });

  it("that a group has, also on its grace, is not taken over, however old its entry is", async () => {
    const environment = newEnvironment();
    const given = imported("a");
    const token = given.token ?? "";
    await admin().import(environment, [given]);
    await makeOld(redis(), environment, token);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
    await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
    await makeOld(redis(), environment, token);
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
    expect((await store().resolve(environment, token)).providedId).toBe("a");
  });

  it("that is claimed anew for its group is not taken over by who saw it old", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    await claim(environment, token);
    await makeOld(redis(), environment, token);
    // The other import has looked at the group when its claim is made anew.
    const outcome = await importMeanwhile(environment, imported("b", { token }), "claim-token", async () => {
      await claim(environment, token, "a", 1);
    });
    expect(outcome).toEqual(["TokenTaken"]);
    expect((await entryOf(environment, token))?.endsWith(":a")).toBe(true);
  });

  it("is claimed under another entry each time, later than the one before", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const ahead = Date.now() + HOUR_MS;
    await redis().set(entryKey(environment, token), `${ahead}:a`);
    for (let i = 1; i < 4; i++) {
      // Whoever claimed it first may be about to use it.
      expect(await claim(environment, token)).toMatch(/^\d+:0$/);
      expect(await entryOf(environment, token)).toBe(`${ahead + i}:a`);
    }
  });

  it("is forgotten by an import that does not give it, unless another one does", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const [kept] = await importMeanwhile(environment, imported("a", { token }), "import-read", async () => {
      await store().getOrCreate(environment, newGroup("a"));
    });
    expect(kept).toBe("UserGroupExists");
    await waitFor("its entry is gone", async () => (await entryOf(environment, token)) === null);
    const [same] = await importMeanwhile(environment, imported("b", { token }), "import-read", async () => {
      await admin().import(environment, [imported("b", { token })]);
    });
    expect(same).toBe("unchanged");
    expect((await store().resolve(environment, token)).providedId).toBe("b");
  });

  it("on its grace stays its group's when an import fails that would have given it again", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    await admin().import(environment, [imported("a", { token })]);
    await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    await makeOld(redis(), environment, token);
    const failing = testUserGroupAdmin(failingAt(client(), WRITE_GROUP.name), RING);
    const given = imported("a", { token });
    expect(told(await failing.import(environment, [given], EVERY))).toEqual(["StoreUnavailable"]);
    // Behind what the import sent last.
    await store().get(environment, "a");
    expect((await store().resolve(environment, token)).tokenExpireTime).toBeDefined();
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
  });

  it("of this service is on its grace in its second group, whatever becomes of the first", async () => {
    for (const end of ["rotate", "delete"]) {
      const environment = newEnvironment({ partitions: 1 });
      const { token } = (await store().getOrCreate(environment, newGroup("a"))).group;
      await store().rotate(environment, byToken(token, { graceMs: 1 }));
      await waitFor("its grace is over", async () => {
        const [outcome] = told(await admin().import(environment, [imported("b", { token })]));
        return outcome === "created";
      });
      await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
      if (end === "delete") await admin().delete(environment, "a");
      else await store().rotate(environment, byId("a"));
      const viewer = await store().resolve(environment, token);
      expect([viewer.providedId, viewer.tokenExpireTime !== undefined]).toEqual(["b", true]);
      expect(told(await admin().import(environment, [imported("c", { token })]))).toEqual(["TokenTaken"]);
    }
  });

  it("is not given to a group by an import that was held up after its claim", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const now = performance.now.bind(performance);
    let late = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now() + late);
    try {
      const [outcome] = await importMeanwhile(environment, imported("a", { token }), "ugClaimToken", async () => {
        late = CLAIM_MS;
      });
      expect(outcome).toBe("StoreUnavailable");
    } finally {
      clock.mockRestore();
    }
    await fails(store().get(environment, "a"), UserGroupNotFound);
  });

  describe.each(["another system", "this service"])("of %s that two imports are about to give a group", (maker) => {
    const made = () => {
      const environment = newEnvironment();
      const token = maker === "this service" ? newUserGroupToken(partitionOf(environment, "a")) : foreignToken();
      const add = (id: string) => admin().import(environment, [imported(id, { token })]);
      const heldUp = (meanwhile: () => Promise<void>) =>
        importMeanwhile(environment, imported("a", { token }), "ugClaimToken", meanwhile);
      return { environment, token, add, heldUp };
    };

    it("stays its own when the group is deleted behind one of them", async () => {
      const { environment, token, add, heldUp } = made();
      let [other, before]: (string | null | undefined)[] = [];
      const outcome = await heldUp(async () => {
        expect(told(await add("a"))).toEqual(["created"]);
        before = await entryOf(environment, token);
        await admin().delete(environment, "a");
        await redis().ping();
        [other] = told(await add("b"));
      });
      expect([outcome, other]).toEqual([["created"], "TokenTaken"]);
      expect(before).not.toBeNull();
      expect((await store().resolve(environment, token)).providedId).toBe("a");
      await fails(store().get(environment, "b"), UserGroupNotFound);
    });

    it("stays its own when one of them fails", async () => {
      const { environment, token, add, heldUp } = made();
      let other: string | undefined;
      const outcome = await heldUp(async () => {
        // It finds no group, and refuses to change the one that is there behind its claim.
        const late = await importMeanwhile(environment, imported("a", { token }), "import-read", async () => {
          await store().getOrCreate(environment, newGroup("a"));
        });
        expect(late).toEqual(["UserGroupExists"]);
        await admin().delete(environment, "a");
        await redis().ping();
        [other] = told(await add("b"));
      });
      expect([outcome, other]).toEqual([["created"], "TokenTaken"]);
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    });
  });

  it.each([1, 2, 3])("is of one group at most, whatever is cut off and whoever takes over (%i)", async (seed) => {
    const random = new Random(seed);
    const environment = newEnvironment({ partitions: 4 });
    const ids = Array.from({ length: 6 }, (_, i) => `g${i}`);
    const tokens = [...Array.from({ length: 3 }, foreignToken), newUserGroupToken(0), newUserGroupToken(99)];
    let made = 0;
    // Others come between the claim of an import and its change; some are cut off there.
    const importing = (worker: number, meanwhile: () => Promise<unknown>) => {
      return testUserGroupAdmin(heldUpAt(client(worker), WRITE_GROUP.name, meanwhile), RING);
    };
    const cutOff = () => Promise.reject(new StoreUnavailable(new Error("cut off"), "unknown"));
    const act = async (worker: number) => {
      const [id, token] = [random.pick(ids), random.pick(tokens)];
      const unless = (error: unknown) => {
        if (!(error instanceof UserGroupNotFound)) throw error;
      };
      const graceMs = random.chance(0.3) ? HOUR_MS : 0;
      await pause(random.below(10));
      switch (random.below(8)) {
        case 0:
          return admin({ worker }).delete(environment, id).catch(unless);
        case 1:
          return store({ worker }).rotate(environment, byId(id, { graceMs })).catch(unless);
        case 2:
          return importing(worker, cutOff).import(environment, [imported(id, { token })], EVERY);
        default: {
          const given = [imported(id, { token })];
          const slow = importing(worker, () => pause(random.below(8)));
          const [outcome] = await slow.import(environment, given, { ...EVERY, graceMs });
          if (outcome?.outcome === "failed") expect(outcome.error).toBeInstanceOf(TokenTaken);
          else made++;
        }
      }
    };
    for (let round = 0; round < 12; round++) {
      await Promise.all(Array.from({ length: 16 }, (_, worker) => act(worker)));
      // Nothing is under way, so that any entry may be old.
      for (const token of tokens) if (random.chance(0.5)) await makeOld(redis(), environment, token);
      const { items } = await admin().export(environment, { after: "", size: 100, prefix: "" });
      const holders = await Promise.all(items.map(({ token = "" }) => store().resolve(environment, token)));
      expect(holders.map(({ providedId }) => providedId)).toEqual(items.map(({ providedId }) => providedId));
    }
    expect(made).toBeGreaterThan(12);
  });

  /** What an import of a group is told, when something happens once after a read, or after a script. */
  async function importMeanwhile(
    environment: Environment,
    given: ImportedUserGroup,
    after: string,
    meanwhile: () => Promise<void>,
  ) {
    const real = client();
    let isFirst = true;
    const intercept =
      (call: (...args: never[]) => Promise<unknown>) =>
      async (...args: [string, { readonly name: string }, ...unknown[]]) => {
        const answer = await call.apply(real, args as unknown as never[]);
        const isIt = args[0] === after ? call !== real.prepare : args[1].name === after;
        if (!isFirst || !isIt) return answer;
        isFirst = false;
        await meanwhile();
        return answer;
      };
    const late = {
      run: intercept(real.run as never),
      ask: intercept(real.ask as never),
      prepare: intercept(real.prepare as never),
      change: real.change.bind(real),
    } as unknown as StoreClient;
    return told(await testUserGroupAdmin(late, RING).import(environment, [given]));
  }
}
