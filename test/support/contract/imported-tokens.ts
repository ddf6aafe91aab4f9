import { Random } from "@user-group-service/testing/random";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { HOUR_MS } from "../../../src/domain/durations.ts";
import { TokenNotFound } from "../../../src/domain/errors.ts";
import { newUserGroupToken } from "../../../src/domain/token.ts";
import {
  byId,
  byToken,
  type ContractContext,
  fails,
  foreignToken,
  imported,
  newEnvironment,
  newGroup,
  oneWins,
} from "./context.ts";
import { reported } from "./imports.ts";

/** Options of an import that replaces every token, even a token that was created after `snapshotTime`. */
const EVERY = { mode: "upsert", replaceNewerTokens: true } as const;

/**
 * Tests the tokens of imported groups. An imported token was created by another system, or in another environment of
 * this service.
 */
export function importedTokenContract({ store, admin, many }: ContractContext): void {
  const create = async (id = "a", given = imported(id, { name: "A" })) => {
    const environment = await newEnvironment();
    await admin().import(environment, [given]);
    return { environment, token: given.token ?? "" };
  };

  describe("imported tokens", () => {
    it.each([
      ["of another system", foreignToken],
      ["of this service", newUserGroupToken],
    ])("an imported token %s resolves on every worker to the current values of the group", async (_, newToken) => {
      const { environment, token } = await create("a", imported("a", { token: newToken() }));
      await store().update(environment, "a", { name: "B" });
      for (const worker of [0, 1]) {
        expect(await store({ worker }).resolve(environment, token)).toMatchObject({ providedId: "a", name: "B" });
      }
      expect((await store().get(environment, "a")).token).toBe(token);
    });

    it.each([8, 29, 36, 128, 700, 1024])("an imported token of %i characters can be rotated", async (length) => {
      const { environment, token } = await create(
        "a",
        imported("a", { token: "imported-".repeat(200).slice(0, length) }),
      );
      expect(await store().update(environment, "a", { name: "B" })).toMatchObject({ token });
      const rotated = await store().rotate(environment, byToken(token, { requestId: "r" }));
      expect(rotated).toMatchObject({ name: "B", token: expect.stringMatching(/^ugt_/) });
      expect(await store().rotate(environment, byToken(token, { requestId: "r" }))).toEqual(rotated);
      expect((await store().resolve(environment, rotated.token)).name).toBe("B");
    });

    it("an imported token is revoked when its group is rotated by token or by id", async () => {
      for (const by of [byToken, () => byId("a")]) {
        const { environment, token } = await create();
        const rotated = await store({ worker: 1 }).rotate(environment, by(token));
        expect(rotated).toMatchObject({ providedId: "a", name: "A", token: expect.stringMatching(/^ugt_/) });
        await fails(store().resolve(environment, token), TokenNotFound);
        await fails(store().rotate(environment, byToken(token)), TokenNotFound);
        expect((await store().resolve(environment, rotated.token)).providedId).toBe("a");
      }
    });

    it("an imported token can be rotated by only one of several concurrent calls", async () => {
      const { environment, token } = await create();
      const calls = Array.from({ length: 30 }, (_, worker) => store({ worker }).rotate(environment, byToken(token)));
      const won = await oneWins(calls, TokenNotFound);
      expect((await store().get(environment, "a")).token).toBe(won.token);
    });

    it("an imported token can have a grace period, in which no other group can receive the token", async () => {
      const { environment, token } = await create();
      const rotated = await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeCloseTo(
        rotated.tokenCreateTime + HOUR_MS,
        -3,
      );
      await fails(store().rotate(environment, byToken(token)), TokenNotFound);
      for (let tries = 0; tries < 2; tries++)
        expect(reported(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    });

    it("an imported token can be imported for another group after its grace period", async () => {
      const { environment, token } = await create();
      await store().rotate(environment, byToken(token, { graceMs: 300 }));
      await waitFor("the grace period is over", () =>
        store()
          .resolve(environment, token)
          .then(
            () => false,
            (error) => error instanceof TokenNotFound,
          ),
      );
      expect(reported(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
      expect((await store().resolve(environment, token)).providedId).toBe("b");
      // The token no longer belongs to the group `a`. So changes of `a` do not revoke the token.
      await store().rotate(environment, byId("a"));
      await admin().delete(environment, "a");
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeUndefined();
    });

    it("an imported token can be imported for another group after its group was deleted or has received another token", async () => {
      const endings = [
        (environment: Awaited<ReturnType<typeof newEnvironment>>) => admin().delete(environment, "a"),
        (environment: Awaited<ReturnType<typeof newEnvironment>>) => store().rotate(environment, byId("a")),
        (environment: Awaited<ReturnType<typeof newEnvironment>>) =>
          admin().import(environment, [imported("a")], EVERY),
      ];
      for (const end of endings) {
        const { environment, token } = await create();
        expect(reported(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
        await end(environment);
        expect(reported(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
        expect((await store().resolve(environment, token)).providedId).toBe("b");
      }
    });

    it("an imported token becomes the current token of its group again if it is imported in its grace period", async () => {
      const { environment, token } = await create();
      const other = foreignToken();
      await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
      for (const given of [other, token]) {
        expect(
          reported(await admin().import(environment, [imported("a", { name: "A", token: given })], EVERY)),
        ).toEqual(["updated"]);
      }
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeUndefined();
      await fails(store().resolve(environment, other), TokenNotFound);
      await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
      const again = [imported("a", { name: "A", token })];
      expect(reported(await admin().import(environment, again, { ...EVERY, graceMs: HOUR_MS }))).toEqual(["updated"]);
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeUndefined();
    });

    it("an imported token stays valid for its full grace period if an import replaces it", async () => {
      const { environment, token } = await create();
      await admin().import(environment, [imported("a")], { ...EVERY, graceMs: 48 * HOUR_MS });
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeGreaterThan(Date.now() + 47 * HOUR_MS);
    });

    it("an imported token is valid only in its environment", async () => {
      const { environment, token } = await create();
      const other = await newEnvironment({ name: environment.name, tag: "Testing" });
      await fails(store().resolve(other, token), TokenNotFound);
      await fails(store().rotate(other, byToken(token)), TokenNotFound);
      expect(reported(await admin().import(other, [imported("b", { token })]))).toEqual(["created"]);
      expect((await store().resolve(other, token)).providedId).toBe("b");
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    });

    it("an imported token is assigned to only one of several groups if their imports are concurrent", async () => {
      const environment = await newEnvironment();
      const token = foreignToken();
      const imports = await Promise.all(
        Array.from({ length: many(20) }, (_, i) =>
          admin({ worker: i }).import(environment, [imported(`group ${i}`, { token })]),
        ),
      );
      const outcomes = imports.map(([outcome]) => reported(outcome ? [outcome] : []).join());
      expect(outcomes.filter((outcome) => outcome === "created")).toHaveLength(1);
      expect(new Set(outcomes)).toEqual(new Set(["created", "TokenTaken"]));
      const { providedId } = await store().resolve(environment, token);
      expect(providedId).toBe(`group ${outcomes.indexOf("created")}`);
    });

    it.each([1, 2, 3])("no token belongs to two groups after random concurrent changes (seed %i)", async (seed) => {
      const random = new Random(seed);
      const environment = await newEnvironment();
      const ids = ["a", "b", "c"];
      const tokens = Array.from({ length: 3 }, foreignToken);
      for (const id of ids) await store().getOrCreate(environment, newGroup(id));
      const change = async (worker: number): Promise<unknown> => {
        const id = random.pick(ids);
        const graceMs = random.pick([0, 0, 30, HOUR_MS]);
        switch (random.pick(["import", "import", "import", "rotate", "delete"])) {
          case "rotate":
            return store({ worker }).rotate(environment, byId(id, { graceMs }));
          case "delete":
            return admin({ worker }).delete(environment, id);
          default:
            return admin({ worker }).import(environment, [imported(id, { token: random.pick(tokens) })], {
              ...EVERY,
              graceMs,
            });
        }
      };
      for (let round = 0; round < many(20); round++) {
        await Promise.allSettled(Array.from({ length: 6 }, (_, worker) => change(worker)));
        const { items } = await admin().export(environment, { after: "", size: 10, prefix: "" });
        const current = new Map(items.map(({ providedId, token }) => [token, providedId]));
        expect(current.size).toBe(items.length);
        for (const [token, id] of current) {
          const viewer = await store().resolve(environment, token);
          expect([viewer.providedId, viewer.tokenExpireTime]).toEqual([id, undefined]);
        }
      }
    });
  });
}
