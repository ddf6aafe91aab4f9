import { describe, expect, it } from "vitest";
import { RECORD } from "../../../src/store/audit/audit-trail.ts";
import { tokenDigest } from "../../../src/store/encryption/encryption.ts";
import { CLAIM_TOKEN, FORGET_TOKEN } from "../../../src/store/groups/foreign-tokens.ts";
import { WRITE_GROUP } from "../../../src/store/groups/imports.ts";
import { ROTATE } from "../../../src/store/groups/rotations.ts";
import { DELETE } from "../../../src/store/groups/user-group-admin.ts";
import { UPDATE } from "../../../src/store/groups/user-groups.ts";
import { KEY } from "../../../src/store/keys.ts";
import { ADD_MEMBER, SET_IF_ABSENT } from "../../../src/store/records.ts";
import { ADOPT } from "../../../src/store/secret-keys/ring.ts";
import { sendBy } from "../redis-of.ts";
import { AUDIT, BY } from "../stores.ts";
import { type ContractContext, contents, keysOf } from "./context.ts";

/** A change that reaches Redis when its caller was told that it failed. */
export function deadlineContract({ redis, withGroup }: ContractContext): void {
  describe("a change after its deadline", () => {
    const commands = (prefix: string, group: string, token: string) => {
      const audited = AUDIT.ofPartition(prefix, BY);
      const made = {
        ...{ key: `${prefix}group:b`, prefix, id: "b", digest: "d".repeat(22), first: 1, step: 1, count: 9 },
        ...{ updateTime: "", graceMs: 0, replaced: 0 },
      };
      const named = { names: "name", rest: ["n", "late"], ...audited };
      const rotated = {
        ...{ prefix, id: "", text: "t", keyId: "k1", graceMs: 0 },
        ...{ request: "", fingerprint: "" },
      };
      const claimed = { prefix, digest: "d", id: "a", replaced: "", anew: true };
      type Send = ReturnType<typeof sendBy>;
      return {
        "an update": (send: Send) =>
          send(UPDATE, { key: group, id: "a", updateTime: "", heldKeys: ",k1,", replaced: 0, ...named }),
        "a rotation": (send: Send) =>
          send(ROTATE, {
            ...{ key: prefix + KEY.tokens, ...rotated, old: tokenDigest(token), digest: "d", keepMs: 0 },
            ...audited,
          }),
        "a creation": (send: Send) => send(WRITE_GROUP, { ...made, isIndexed: true, ...named }),
        "a first use of a request id": (send: Send) =>
          send(SET_IF_ABSENT, { key: `${prefix}${KEY.requestParameters}r`, text: "late", lastsMs: 60_000 }),
        "a listing": (send: Send) => send(ADD_MEMBER, { key: `${prefix}listed`, member: "late" }),
        "an adoption": (send: Send) => send(ADOPT, { key: `${prefix}adopted`, field: "field", value: "late" }),
        "an event": (send: Send) => send(RECORD, { key: prefix + KEY.audit, subject: "late", names: "", ...audited }),
        "an import": (send: Send) => send(WRITE_GROUP, { ...made, isIndexed: false, ...named }),
        "a deletion": (send: Send) =>
          send(DELETE, { key: prefix + KEY.tokens, updateTime: "", prefix, old: "", id: "a", ...audited }),
        "a claim of a token": (send: Send) => send(CLAIM_TOKEN, { key: `${prefix}${KEY.foreign}d`, ...claimed }),
        "a token that is forgotten": (send: Send) =>
          send(FORGET_TOKEN, { key: `${prefix}${KEY.foreign}kept`, entry: "1:a", keepMs: 60_000 }),
      } as const;
    };
    const names = Object.keys(commands("", "", "")) as (keyof ReturnType<typeof commands>)[];

    it.each(names)("which is %s, is not made, and before it is", async (name) => {
      const { environment, group } = await withGroup({ partitions: 1 });
      const { group: key, prefix } = keysOf(environment, "a");
      const before = await contents(redis(), environment);
      const change = commands(prefix, key, group.token)[name];
      const [outcome, now] = await change(sendBy(redis(), Date.now() - 1000));
      expect(outcome).toBe("late");
      expect(Math.abs(Number(now) - Date.now())).toBeLessThan(60_000);
      expect(await contents(redis(), environment)).toEqual(before);
      // What is to be forgotten is there only now.
      if (name === "a token that is forgotten") await redis().set(`${prefix}${KEY.foreign}kept`, "1:a");
      const [made, then] = await change(sendBy(redis(), Date.now() + 60_000));
      expect(made).not.toBe("late");
      expect(Number(then)).toBeGreaterThanOrEqual(Number(now));
      expect(await contents(redis(), environment)).not.toEqual(before);
    });
  });
}
