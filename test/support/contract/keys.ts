import { describe, expect, it } from "vitest";
import { RecordUnreadable } from "../../../src/domain/errors.ts";
import type { RingKey } from "../../../src/store/encryption.ts";
import { TEAM_ID_KEY } from "../../../src/store/keys.ts";
import { TeamIds } from "../../../src/store/team-ids.ts";
import { byId, byToken, type ContractContext, fails, keysOf, newEnvironment, newGroup, RING } from "./context.ts";

const NEXT: RingKey = { id: "k2", secret: new Uint8Array(32).fill(2) };

/** The ring of encryption keys. */
export function ringContract({ store, redis }: ContractContext): void {
  describe("the key ring", () => {
    it("reads what was encrypted under an older key, and encrypts under its first", async () => {
      const environment = newEnvironment();
      const { group } = await store().getOrCreate(environment, newGroup("a"));
      const { group: key } = keysOf(environment, "a");
      expect(await redis().hget(key, "token")).toMatch(/^k1\./);
      const turned = store({ ring: [NEXT, ...RING] });
      expect((await turned.getOrCreate(environment, newGroup("a"))).group).toEqual(group);
      const first = await turned.rotate(environment, byToken(group.token));
      await turned.drain();
      expect(await redis().hget(key, "token")).toMatch(/^k2\./);
      const second = await turned.rotate(environment, byId("a"));
      expect(await redis().hget(key, "token")).toMatch(/^k2\./);
      expect(second.token).not.toBe(first.token);
      // What the new key encrypted needs the old one no more.
      expect((await store({ ring: [NEXT] }).getOrCreate(environment, newGroup("a"))).group).toEqual(second);
    });

    it("answers nobody with a token under a key that it does not hold", async () => {
      const environment = newEnvironment();
      const { group } = await store().getOrCreate(environment, newGroup("a"));
      const without = store({ ring: [NEXT] });
      await fails(without.getOrCreate(environment, newGroup("a")), RecordUnreadable);
      await fails(without.update(environment, "a", {}), RecordUnreadable);
      await fails(store({ ring: [{ ...NEXT, id: "k1" }] }).getOrCreate(environment, newGroup("a")), RecordUnreadable);
      // A viewer is shown no token, so none is decrypted.
      expect((await without.resolve(environment, group.token)).providedId).toBe("a");
    });
  });
}

/** Internal ids. The data must be the contract's alone. */
export function teamIdContract({ store, clients, redis }: ContractContext): void {
  describe("team ids", () => {
    const workers = () => clients().map((client) => new TeamIds(client));

    it("are given from 1 on, one after the other", async () => {
      await redis().del(TEAM_ID_KEY);
      const [ids] = workers();
      await ids?.prepare();
      const seen = [];
      for (let i = 0; i < 350; i++) seen.push(await ids?.next());
      expect(seen).toEqual(Array.from({ length: 350 }, (_, i) => i + 1));
    });

    it("are unique over workers that take them at once", async () => {
      await redis().del(TEAM_ID_KEY);
      const all = [...workers(), ...workers()];
      const ids = await Promise.all(Array.from({ length: 1000 }, (_, i) => all[i % all.length]?.next()));
      expect(new Set(ids).size).toBe(1000);
      expect(Math.min(...ids.map(Number))).toBe(1);
      // Blocks are not wasted: each worker leaves less than two unused.
      expect(Math.max(...ids.map(Number))).toBeLessThanOrEqual(1000 + all.length * 200);
    });

    it("go on where an earlier process stopped", async () => {
      const [before] = workers();
      const last = await before?.next();
      const [after] = workers();
      expect(await after?.next()).toBeGreaterThan(Number(last));
    });

    it("go from group to group and never change", async () => {
      const environment = newEnvironment();
      const { group: a } = await store().getOrCreate(environment, newGroup("a"));
      const { group: b } = await store({ worker: 1 }).getOrCreate(environment, newGroup("b"));
      expect(b.teamId).not.toBe(a.teamId);
      expect((await store().rotate(environment, byId("a"))).teamId).toBe(a.teamId);
      expect((await store().update(environment, "a", { name: "N" })).teamId).toBe(a.teamId);
    });
  });
}
