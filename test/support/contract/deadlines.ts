import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import { tokenDigest } from "../../../src/store/encryption.ts";
import { auditKey, foreignTokenKey, requestClaimKey, tokensKey } from "../../../src/store/keys.ts";
import { AUDIT, BY } from "../stores.ts";
import { type ContractContext, contents, keysOf, newEnvironment, newGroup } from "./context.ts";

/** A change that reaches Redis when its caller was told that it failed. */
export function deadlineContract({ store, redis }: ContractContext): void {
  describe("a change after its deadline", () => {
    const commands = (environment: Environment, prefix: string, group: string, token: string) => {
      const audited = AUDIT.ofPartition(environment, 0, BY);
      return {
        "an update": (at: string) => redis().ugUpdate(group, at, "", "0", "name", "a", "n", "late", ...audited),
        "a rotation": (at: string) =>
          redis().ugRotate(
            tokensKey(prefix),
            ...[at, prefix, tokenDigest(token), "", "d", "t", "k1", "0", "", "", "0"],
            ...audited,
          ),
        "a creation": (at: string) =>
          redis().ugCreate(`${prefix}group:b`, ...[at, prefix, "b", "d", "1", "1", "9", "name", "n", "B"], ...audited),
        "a claim": (at: string) => redis().ugClaim(requestClaimKey(prefix, "r"), at, "late", "60000"),
        "a listing": (at: string) => redis().ugList(`${prefix}listed`, at, "late"),
        "an adoption": (at: string) => redis().ugAdopt(`${prefix}adopted`, at, "field", "late"),
        "an event": (at: string) => redis().ugRecord(auditKey(prefix), at, "late", "", ...audited),
        "an import": (at: string) =>
          redis().ugImport(
            `${prefix}group:b`,
            ...[at, "", prefix, "b", "d".repeat(22), "", "0", "1", "1", "9", "name", "0", "n", "B"],
            ...audited,
          ),
        "a deletion": (at: string) => redis().ugDelete(group, at, "", prefix, "a", ...audited),
        "a claim of a token": (at: string) =>
          redis().ugClaimToken(foreignTokenKey(prefix, "d"), at, prefix, "d", "a", "", "1"),
        "a token that is forgotten": async (at: string) => {
          const key = foreignTokenKey(prefix, "kept");
          if (Number(at) > Date.now()) await redis().set(key, "1:a");
          return redis().ugForgetToken(key, at, "1:a", "60000");
        },
      } as const;
    };
    const names = Object.keys(commands(newEnvironment(), "", "", "")) as (keyof ReturnType<typeof commands>)[];

    it.each(names)("which is %s, is not made, and before it is", async (name) => {
      const environment = newEnvironment({ partitions: 1 });
      const { group } = await store().getOrCreate(environment, newGroup("a"));
      const { group: key, prefix } = keysOf(environment, "a");
      const before = await contents(redis(), environment);
      const change = commands(environment, prefix, key, group.token)[name];
      const [outcome, now] = await change(String(Date.now() - 1000));
      expect(outcome).toBe("late");
      expect(Math.abs(Number(now) - Date.now())).toBeLessThan(60_000);
      expect(await contents(redis(), environment)).toEqual(before);
      const [made, then] = await change(String(Date.now() + 60_000));
      expect(made).not.toBe("late");
      expect(Number(then)).toBeGreaterThanOrEqual(Number(now));
      expect(await contents(redis(), environment)).not.toEqual(before);
    });
  });
}
