import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import type { UserGroup } from "../../../src/domain/user-group.ts";
import { tokenDigest } from "../../../src/store/encryption.ts";
import { apiTokenKey, apiTokensKey, idsKey, requestKey, signingKeysKey, tokensKey } from "../../../src/store/keys.ts";
import {
  ADD_MEMBER,
  BEGIN_DELETION,
  CREATE_API_TOKEN,
  DELETE_GROUP,
  ROTATE_TOKEN,
  SET_IDENTITY,
  UPDATE_GROUP,
  WRITE_GROUP,
} from "../../../src/store/scripts.ts";
import { type ContractContext, contents, keysOf } from "../contract/context.ts";
import { sendBy } from "../redis-of.ts";
import { AUDIT, BY } from "../stores.ts";

/** A change that reaches Redis after its caller received an error. */
export function deadlineLayout({ redis, withGroup }: ContractContext): void {
  type Send = ReturnType<typeof sendBy>;
  const changes: Record<string, (send: Send, environment: Environment, group: UserGroup) => Promise<string[]>> = {
    "an update": (send, environment) =>
      send(UPDATE_GROUP, {
        ...{ ...AUDIT.argsOf(environment.number, BY), group: keysOf(environment, "a").group, id: "a", etag: "" },
        ...{ keyIds: ",k1,", changedFields: "name", removed: "", extraArgs: ["n", "late"] },
      }),
    "a rotation": (send, { number, ...environment }, { token }) => {
      const [currentDigest, digest] = [tokenDigest(token), "00AAAAAAAAAAAAAAAAAAAA"];
      return send(ROTATE_TOKEN, {
        ...{
          ...AUDIT.argsOf(number, BY),
          target: keysOf({ number, ...environment }, "a").group,
          id: "a",
          currentDigest,
          digest,
        },
        ...{
          request: requestKey(number, ""),
          tokens: tokensKey(number, digest),
          encryptedToken: "t",
          keyId: "k1",
          graceMs: 0,
        },
        ...{ parameters: "", requestTtlMs: 0 },
      });
    },
    "a creation": (send, environment) => {
      const { number } = environment;
      const digest = "00AAAAAAAAAAAAAAAAAAAA";
      return send(WRITE_GROUP, {
        ...{ ...AUDIT.argsOf(number, BY), group: keysOf(environment, "b").group, ids: idsKey(number), digest, id: "b" },
        ...{
          tokens: tokensKey(number, digest),
          expectedVersion: "",
          graceMs: 0,
          firstTeamId: 1,
          teamIds: 9,
          removed: "",
          unlessExpired: false,
        },
        ...{ changedFields: "name", extraArgs: ["n", "late"] },
      });
    },
    "a deletion": (send, environment) =>
      send(DELETE_GROUP, {
        ...{
          ...AUDIT.argsOf(environment.number, BY),
          target: keysOf(environment, "a").group,
          id: "a",
          currentDigest: "",
        },
        ...{ ids: idsKey(environment.number), etag: "" },
      }),
    "a creation of an API token": (send, { number }) =>
      send(CREATE_API_TOKEN, {
        ...{ ...AUDIT.argsOf(number, BY), apiTokens: apiTokensKey(number), apiToken: apiTokenKey(number, "late") },
        ...{
          id: "late",
          digest: "late",
          tokenRole: "read",
          displayName: "late",
          creator: "root",
          issuer: "",
          maxTokens: 9,
        },
        expireTime: "",
      }),
    "the start of a deletion": (send, { number }) =>
      send(BEGIN_DELETION, {
        ...{ ...AUDIT.argsOf(number, BY), ids: idsKey(number), signingKeys: signingKeysKey(number) },
        ...{ force: true, channel: "c", message: "m" },
      }),
    "a listing": (send, environment) =>
      send(ADD_MEMBER, { key: `${keysOf(environment, "a").prefix}listed`, member: "late" }),
    "an identity": (send, environment) =>
      send(SET_IDENTITY, { key: `${keysOf(environment, "a").prefix}format`, layout: "1", id: "a", accepted: "" }),
  };

  describe("a change after its deadline", () => {
    it.each(Object.keys(changes))("is rejected, and is made before its deadline: %s", async (name) => {
      const { environment, group } = await withGroup();
      const before = await contents(redis(), environment);
      const change = changes[name] ?? expect.fail("no such change");
      const [outcome, now] = await change(sendBy(redis(), Date.now() - 1000), environment, group);
      expect(outcome).toBe("late");
      expect(Math.abs(Number(now) - Date.now())).toBeLessThan(60_000);
      expect(await contents(redis(), environment)).toEqual(before);
      const [made, then] = await change(sendBy(redis(), Date.now() + 60_000), environment, group);
      expect(["late", "gone"]).not.toContain(made);
      expect(Number(then)).toBeGreaterThanOrEqual(Number(now));
      expect(await contents(redis(), environment)).not.toEqual(before);
    });
  });
}
