import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import { TokenNotFound, TokenTaken } from "../../../src/domain/errors.ts";
import { tokenDigest } from "../../../src/store/encryption.ts";
import { FIELD } from "../../../src/store/groups/group-record.ts";
import { tokensKey } from "../../../src/store/keys.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  fails,
  foreignToken,
  imported,
  newEnvironment,
  newGroup,
} from "../contract/context.ts";
import { reported } from "../contract/imports.ts";
import { keysOf } from "../stored-state.ts";

const HOUR_MS = 3_600_000;

/**
 * Tests the index that finds the group of a token. An entry of the index does not make a token valid: the record of the
 * group must contain the token as well.
 */
export function tokenIndexLayout({ store, admin, redis, many }: ContractContext): void {
  const create = async () => {
    const environment = await newEnvironment();
    const [a, b] = [newGroup("a"), newGroup("b")].map((group) => store().getOrCreate(environment, group));
    const tokens = { a: (await a)?.group.token ?? "", b: (await b)?.group.token ?? "" };
    return { environment, tokens, ...keysOf(environment, "a") };
  };
  const refused = async (environment: Environment, token: string) => {
    const before = await contents(redis(), environment);
    await fails(store().resolve(environment, token), TokenNotFound);
    await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    expect(await contents(redis(), environment)).toEqual(before);
  };
  const entryOf = ({ number }: Environment, token: string) => {
    const digest = tokenDigest(token);
    return [tokensKey(number, digest), digest.slice(2)] as const;
  };
  const point = (environment: Environment, token: string, id: string) =>
    redis().hset(...entryOf(environment, token), id);
  const index = async (environment: Environment) => {
    const all = Object.entries(await contents(redis(), environment));
    return all.filter(([key]) => key.includes(":tokens:")).flatMap(([, entries]) => Object.values(entries as object));
  };

  describe("the index of tokens", () => {
    it("has one entry after concurrent creations of one group, and no other keys are left", async () => {
      const environment = await newEnvironment();
      const create = (_: unknown, worker: number) => store({ worker }).getOrCreate(environment, newGroup("a"));
      await Promise.all(Array.from({ length: many(100) }, create));
      const [record, trail, group, ids, entries] = Object.values(await contents(redis(), environment));
      expect(record).toMatchObject({ groups: "1" });
      expect(trail).toHaveLength(1);
      expect(Object.keys(group as object)).toHaveLength(7);
      expect(ids).toEqual(["a", "0"]);
      expect(Object.keys(entries as object)).toHaveLength(1);
    });

    it("contains only the current token of each group and its old token in the grace period", async () => {
      const { environment, tokens } = await create();
      expect((await index(environment)).sort()).toEqual(["a", "b"]);
      const second = await store().rotate(environment, byToken(tokens.a, { graceMs: HOUR_MS }));
      expect((await index(environment)).sort()).toEqual(["a", "a", "b"]);
      await store().rotate(environment, byToken(second.token, { graceMs: HOUR_MS }));
      expect((await index(environment)).sort()).toEqual(["a", "a", "b"]);
      await store().rotate(environment, byId("a"));
      expect((await index(environment)).sort()).toEqual(["a", "b"]);
      for (const token of ["first-token-of-another-system", "second-token-of-another-system"])
        await admin().import(environment, [imported("a", { token })], { mode: "upsert", replaceNewerTokens: true });
      expect((await index(environment)).sort()).toEqual(["a", "b"]);
      for (const id of ["a", "b"]) await admin().delete(environment, id);
      expect(await index(environment)).toEqual([]);
    });

    it("the index of tokens is divided into up to 256 keys, so that no key becomes large", async () => {
      const environment = await newEnvironment();
      const ids = Array.from({ length: many(400) }, (_, i) => `group ${i}`);
      await Promise.all(ids.map((id, worker) => store({ worker }).getOrCreate(environment, newGroup(id))));
      const keys = Object.keys(await contents(redis(), environment)).filter((key) => key.includes(":tokens:"));
      for (const key of keys) expect(key).toMatch(/:tokens:[0-9a-f]{2}$/);
      expect(keys.length).toBeGreaterThan(many(400) / 8);
    });

    it("does not make a revoked token valid", async () => {
      const { environment, tokens } = await create();
      await store().rotate(environment, byToken(tokens.a));
      await point(environment, tokens.a, "a");
      await refused(environment, tokens.a);
    });

    it("does not make a token valid if its entry refers to a deleted group or to another group", async () => {
      const { environment, tokens } = await create();
      for (const id of ["gone", "b"]) {
        await point(environment, tokens.a, id);
        await refused(environment, tokens.a);
      }
      expect((await store().resolve(environment, tokens.b)).providedId).toBe("b");
      const { token } = await store().rotate(environment, byId("a"));
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    });

    it("does not extend a grace period", async () => {
      const { environment, tokens, group } = await create();
      await store().rotate(environment, byToken(tokens.a, { graceMs: HOUR_MS }));
      await redis().hset(group, FIELD.graceUntil, String(Date.now() - 1));
      await refused(environment, tokens.a);
    });

    it("the index of tokens is repaired for an imported token if the import is repeated", async () => {
      const environment = await newEnvironment();
      const given = imported("a");
      const token = given.token ?? "";
      await admin().import(environment, [given]);
      await store().getOrCreate(environment, newGroup("b"));
      for (const wrong of [undefined, "b", "gone", ""]) {
        if (wrong === undefined) await redis().hdel(...entryOf(environment, token));
        else await point(environment, token, wrong);
        expect(reported(await admin().import(environment, [given], { validateOnly: true }))).toEqual(["unchanged"]);
        await fails(store().resolve(environment, token), TokenNotFound);
        expect(reported(await admin().import(environment, [given]))).toEqual(["unchanged"]);
        expect((await store().resolve(environment, token)).providedId).toBe("a");
      }
    });

    it("has one entry with the right group for a token that several imports assign concurrently", async () => {
      for (let round = 0; round < many(20); round++) {
        const environment = await newEnvironment();
        const token = foreignToken();
        const ids = ["a", "b", "c"];
        // The group `c` already exists, so its import replaces its token.
        await admin().import(environment, [imported("c")]);
        const outcomes = await Promise.all(
          ids.map(async (id, worker) =>
            reported(
              await admin({ worker }).import(environment, [imported(id, { token })], {
                mode: "upsert",
                replaceNewerTokens: true,
              }),
            ),
          ),
        );
        const winners = ids.filter((_, i) => outcomes[i]?.[0] !== TokenTaken.name);
        expect(winners).toHaveLength(1);
        expect((await store().resolve(environment, token)).providedId).toBe(winners[0]);
        const [bucket, field] = entryOf(environment, token);
        expect(await redis().hget(bucket, field)).toBe(winners[0]);
        // The winner has an entry. If `c` is not the winner, `c` keeps the entry of its old token. No other group has
        // an entry.
        expect((await index(environment)).sort()).toEqual([...new Set([winners[0], "c"])].sort());
      }
    });
  });
}
