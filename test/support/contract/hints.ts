import { describe, expect, it } from "vitest";
import { TokenNotFound } from "../../../src/domain/errors.ts";
import { tokenDigest } from "../../../src/store/encryption/encryption.ts";
import { FIELD } from "../../../src/store/groups/fields.ts";
import { byId, byToken, type ContractContext, contents, fails, keysOf, newEnvironment, newGroup } from "./context.ts";

const HOUR_MS = 3_600_000;

/** What the index of tokens holds of one. */
const indexed = (token: string) => tokenDigest(token).slice(0, 14);

/** Indexes only say where to look: what a group's record does not name is not its token. */
export function hintContract({ store, redis }: ContractContext): void {
  const create = async () => {
    const environment = newEnvironment({ partitions: 1 });
    const [a, b] = [newGroup("a"), newGroup("b")].map((group) => store().getOrCreate(environment, group));
    const tokens = { a: (await a)?.group.token ?? "", b: (await b)?.group.token ?? "" };
    return { environment, tokens, ...keysOf(environment, "a") };
  };
  const refused = async (environment: ReturnType<typeof newEnvironment>, token: string) => {
    const before = await contents(redis(), environment);
    await fails(store().resolve(environment, token), TokenNotFound);
    await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    expect(await contents(redis(), environment)).toEqual(before);
  };

  describe("an index that is out of date", () => {
    it("by a token that has ended finds nothing", async () => {
      const { environment, tokens, prefix } = await create();
      await store().rotate(environment, byToken(tokens.a));
      await redis().hset(`${prefix}tokens`, indexed(tokens.a), "a");
      await redis().set(`${prefix}grace:${tokenDigest(tokens.a)}`, "a");
      await refused(environment, tokens.a);
    });

    it("by a group that is gone, or another one, finds nothing", async () => {
      const { environment, tokens, prefix } = await create();
      for (const id of ["gone", "b"]) {
        await redis().hset(`${prefix}tokens`, indexed(tokens.a), id);
        await refused(environment, tokens.a);
      }
      expect((await store().resolve(environment, tokens.b)).providedId).toBe("b");
      // A rotation by id mends it.
      const { token } = await store().rotate(environment, byId("a"));
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    });

    it("by the beginning of a digest alone finds nothing", async () => {
      const { environment, tokens, prefix, group } = await create();
      const digest = (await redis().hget(group, FIELD.digest)) ?? "";
      expect(await redis().hget(`${prefix}tokens`, digest.slice(0, 14))).toBe("a");
      // The index leads to the group, but the rest of the digest is another one.
      await redis().hset(group, FIELD.digest, `${digest.slice(0, -1)}${digest.endsWith("A") ? "B" : "A"}`);
      await refused(environment, tokens.a);
    });

    it("hides no token that is on its grace", async () => {
      const { environment, tokens, prefix } = await create();
      await store().rotate(environment, byToken(tokens.a, { graceMs: HOUR_MS }));
      await redis().hset(`${prefix}tokens`, indexed(tokens.a), "b");
      expect((await store().resolve(environment, tokens.a)).tokenExpireTime).toBeGreaterThan(Date.now());
    });

    it("prolongs no grace", async () => {
      const { environment, tokens, prefix, group } = await create();
      await store().rotate(environment, byToken(tokens.a, { graceMs: HOUR_MS }));
      await redis().hset(group, FIELD.graceUntil, String(Date.now() - 1));
      expect(await redis().get(`${prefix}grace:${tokenDigest(tokens.a)}`)).toBe("a");
      await refused(environment, tokens.a);
    });

    it("gives no grace to the token of another group", async () => {
      const { environment, tokens, prefix } = await create();
      await store().rotate(environment, byToken(tokens.a, { graceMs: HOUR_MS }));
      await store().rotate(environment, byToken(tokens.b));
      await redis().set(`${prefix}grace:${tokenDigest(tokens.b)}`, "a");
      await refused(environment, tokens.b);
    });
  });
}
