import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import type { UserGroup } from "../../../src/domain/user-group.ts";
import { sendChange } from "../../../src/store/audit.ts";
import type { StoreClient } from "../../../src/store/connection/client.ts";
import { tokenDigest } from "../../../src/store/encryption.ts";
import {
  ADD_MEMBER,
  BEGIN_DELETION,
  CREATE_API_TOKEN,
  DELETE_GROUP,
  type EnvironmentScript,
  ROTATE_TOKEN,
  SET_IDENTITY,
  UPDATE_GROUP,
  WRITE_GROUP,
} from "../../../src/store/scripts.ts";
import { type ContractContext, contents } from "../contract/context.ts";
import { sendBy } from "../redis-of.ts";
import { keysOf } from "../stored-state.ts";
import { AUDIT, BY } from "../stores.ts";

/**
 * Tests changes that reach Redis after their deadline. At this time, the callers have already received an error, so the
 * changes must not be made.
 */
export function deadlineLayout({ redis, withGroup }: ContractContext): void {
  type Send = ReturnType<typeof sendBy>;
  const digest = "00AAAAAAAAAAAAAAAAAAAA";
  const change = <Arg extends string>(
    send: Send,
    environment: Environment,
    script: EnvironmentScript<Arg>,
    args: Parameters<typeof sendChange<Arg>>[3],
  ) => {
    const client = { change: (_: string, ...sent: Parameters<Send>) => send(...sent) } as unknown as StoreClient;
    return sendChange({ client, audit: AUDIT, environment, by: BY }, "change", script, args);
  };
  const changes: Record<string, (send: Send, environment: Environment, group: UserGroup) => Promise<string[]>> = {
    "an update": (send, environment) =>
      change(send, environment, UPDATE_GROUP, {
        ...{ id: "a", etag: "", keyIds: ",k1,", changedFields: "name", removed: "", extraArgs: ["n", "late"] },
      }),
    "a rotation": (send, environment, { token }) =>
      change(send, environment, ROTATE_TOKEN, {
        ...{ id: "a", currentDigest: tokenDigest(token), digest, tokenText: "t", keyId: "k1", graceMs: 0 },
        ...{ requestDigest: "", parameters: "", requestTtlMs: 0 },
      }),
    "a creation": (send, environment) =>
      change(send, environment, WRITE_GROUP, {
        ...{ id: "b", digest, expectedVersion: "", graceMs: 0, teamIds: 9, removed: "" },
        ...{ unlessExpired: false, changedFields: "name", extraArgs: ["n", "late"] },
      }),
    "a deletion": (send, environment) =>
      change(send, environment, DELETE_GROUP, { id: "a", currentDigest: "", etag: "" }),
    "a creation of an API token": (send, environment) =>
      change(send, environment, CREATE_API_TOKEN, {
        ...{ id: "late", digest: "late", tokenRole: "read", displayName: "late", maxTokens: 9, expireTime: "" },
      }),
    "the start of an environment deletion": (send, environment) =>
      change(send, environment, BEGIN_DELETION, { force: true, message: "m" }),
    "an addition to a list": (send, environment) =>
      send(ADD_MEMBER, { key: `${keysOf(environment, "a").prefix}listed`, member: "late" }),
    "a new identity of the data": (send, environment) =>
      send(SET_IDENTITY, { key: `${keysOf(environment, "a").prefix}format`, layout: "1", id: "a", accepted: "" }),
  };

  describe("a change with a deadline", () => {
    it.each(Object.keys(changes))(
      "has no effect after the deadline, and has an effect before the deadline: %s",
      async (name) => {
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
      },
    );
  });
}
