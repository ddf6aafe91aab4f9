import { beforeEach, describe, expect, it } from "vitest";
import { RecordUnreadable } from "../../../src/domain/errors.ts";
import { StoreMisconfigured } from "../../../src/store/connection/errors.ts";
import type { RingKey } from "../../../src/store/encryption.ts";
import { checkTokenKeys, checkValue } from "../../../src/store/secret-keys/ring.ts";
import { loseRecordedKeys, recordedCheckValues } from "../stored-state.ts";
import { byId, byToken, type ContractContext, fails, NEXT, newGroup, RING } from "./context.ts";

export function ringContract({ store, clients, redis, withGroup }: ContractContext): void {
  describe("the key ring", () => {
    it("decrypts with every key, and encrypts with the first key", async () => {
      const { environment, group } = await withGroup();
      const newAndOld = store({ ring: [NEXT, ...RING] });
      expect((await newAndOld.getOrCreate(environment, newGroup("a"))).group).toEqual(group);
      const first = await newAndOld.rotate(environment, byToken(group.token));
      const onlyNew = store({ ring: [NEXT] });
      // The new key is enough, because the store with both keys has encrypted the token with the new key.
      expect((await onlyNew.getOrCreate(environment, newGroup("a"))).group).toEqual(first);
      const second = await newAndOld.rotate(environment, byId("a"));
      expect(second.token).not.toBe(first.token);
      expect((await onlyNew.getOrCreate(environment, newGroup("a"))).group).toEqual(second);
    });

    it("rejects tokens that were encrypted with a key that the ring lacks", async () => {
      const { environment, group } = await withGroup();
      const without = store({ ring: [NEXT] });
      await fails(without.getOrCreate(environment, newGroup("a")), RecordUnreadable);
      await fails(without.update(environment, "a", {}), RecordUnreadable);
      await fails(store({ ring: [{ ...NEXT, id: "k1" }] }).getOrCreate(environment, newGroup("a")), RecordUnreadable);
      // `resolve` does not return the token of the group, so it needs no key.
      expect((await without.resolve(environment, group.token)).providedId).toBe("a");
    });
  });
  describe("the check of the ring", () => {
    const [OLD] = RING as [RingKey];
    const WRONG = { ...OLD, secret: new Uint8Array(32).fill(9) };
    const check = (...ring: RingKey[]) => Promise.all(clients().map((client) => checkTokenKeys(client, ring)));
    const recorded = () => recordedCheckValues(redis());
    const noted = async () => Object.keys(await recorded()).sort();
    beforeEach(() => loseRecordedKeys(redis()));

    it("records a check value of the first key, and accepts this key again", async () => {
      for (let start = 0; start < 2; start++) {
        for (const lacking of await check(OLD, NEXT)) expect(lacking).toEqual([]);
        expect(await recorded()).toEqual({ k1: checkValue(OLD.secret) });
      }
      expect(checkValue(OLD.secret)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      expect(checkValue(OLD.secret)).not.toBe(Buffer.from(OLD.secret).toString("base64url"));
    });

    it("accepts a new key as the second key and then as the first key, and reports missing keys", async () => {
      await check(OLD);
      await check(OLD, NEXT);
      expect(await noted()).toEqual(["k1"]);
      await check(NEXT, OLD);
      expect(await noted()).toEqual(["k1", "k2"]);
      // Two keys are recorded. If a ring contains only one of them, the check reports the other key.
      for (const lacking of await check(OLD)) expect(lacking).toEqual(["k2"]);
      for (const lacking of await check(NEXT)) expect(lacking).toEqual(["k1"]);
    });

    it.each([
      ["another key with the recorded id", [WRONG], /k1.*HDEL ug:token-keys k1$/],
      ["a new key, followed by another key with the recorded id", [NEXT, WRONG], /k1.*HDEL ug:token-keys k1$/],
      ["a ring without any recorded key", [NEXT], /none.*\(k1\).*HDEL ug:token-keys k1$/],
    ] as const)("refuses %s, and describes the remedy", async (_, ring, text) => {
      await check(OLD);
      for (const client of clients()) {
        const refusal = await checkTokenKeys(client, ring).catch((error: unknown) => error);
        expect(refusal).toBeInstanceOf(StoreMisconfigured);
        expect((refusal as Error).message).toMatch(text);
      }
      expect(await noted()).toEqual(["k1"]);
    });

    it("reports a key that another process records concurrently", async () => {
      for (const client of clients()) {
        await loseRecordedKeys(redis());
        const lacking = await Promise.all([checkTokenKeys(client, [OLD]), checkTokenKeys(client, [NEXT])]);
        // The process with the key k2 records its key last. This process finds the key k1, which its ring lacks.
        expect(lacking).toEqual([[], ["k1"]]);
      }
    });

    it("accepts only one of two keys that processes record concurrently under the same id", async () => {
      const outcomes = await Promise.allSettled([check(OLD), check(WRONG)]);
      expect(outcomes.filter(({ status }) => status === "fulfilled").length).toBeLessThanOrEqual(1);
      const [first] = Object.values(await recorded());
      const winner = first === checkValue(OLD.secret) ? OLD : WRONG;
      await expect(check(winner)).resolves.toBeDefined();
      await fails(check(winner === OLD ? WRONG : OLD), StoreMisconfigured);
    });
  });
}
