import { beforeEach, describe, expect, it } from "vitest";
import { type Environment, environmentPath } from "../../../src/domain/environment.ts";
import { TokenKeyInUse, UserGroupNotFound } from "../../../src/domain/errors.ts";
import type { StoreClient } from "../../../src/store/connection/client.ts";
import { StoreMisconfigured } from "../../../src/store/connection/errors.ts";
import { type RingKey, TokenCipher } from "../../../src/store/encryption.ts";
import { REPLACE_FIELDS } from "../../../src/store/scripts.ts";
import { checkTokenKeys, noteKeyUse } from "../../../src/store/secret-keys/ring.ts";
import { RedisTokenKeys } from "../../../src/store/secret-keys/token-keys.ts";
import { damageToken, loseRecordedKeys, recordedCheckValues, setKeyUse } from "../stored-state.ts";
import { AUDIT, BY } from "../stores.ts";
import {
  byId,
  type ContractContext,
  fails,
  heldUpAt,
  imported,
  NEXT,
  newEnvironment,
  newGroup,
  RING,
} from "./context.ts";

const [OLD] = RING as [RingKey];

export function tokenKeyContract({ store, admin, client, redis, many }: ContractContext): void {
  /** Returns the store of encryption keys for a service that has only these environments. */
  const keysFor = (ring: readonly RingKey[], ...environments: Environment[]) => keysOn(client(), ring, environments);
  const keysOn = (on: StoreClient, ring: readonly RingKey[], environments: readonly Environment[]) => {
    const items = environments.map((environment) => ({ ...environment, createTime: 0, deleteTime: undefined }));
    const list = async () => ({ items, next: undefined });
    return new RedisTokenKeys({
      client: on,
      cipher: new TokenCipher(ring),
      audit: AUDIT,
      environments: { list },
    });
  };
  /**
   * Re-encrypts all tokens of an environment, in pages of `size` groups.
   *
   * @returns the sum of the results of all pages, and the number of pages
   */
  const reencryptAll = async (environment: Environment, { ring = [NEXT, OLD], size = 7, isDryRun = false } = {}) => {
    const found = { uses: {} as Record<string, number>, count: 0, failed: [] as string[], pages: 0 };
    for (let after: string | undefined = ""; after !== undefined; found.pages++) {
      const page = await keysFor(ring).reencrypt(environment, { after, size }, isDryRun ? undefined : BY);
      for (const [id, { userGroups }] of page.uses) found.uses[id] = (found.uses[id] ?? 0) + userGroups;
      found.count += page.count;
      found.failed.push(...page.failed.userGroups);
      after = page.next;
    }
    return found;
  };

  describe("the re-encryption of an environment", () => {
    it("encrypts every token once, with the first key, and changes no other value", async () => {
      const environment = await newEnvironment();
      const ids = Array.from({ length: 20 }, (_, i) => `group ${i}`);
      const before = await Promise.all(ids.map((id) => store().getOrCreate(environment, newGroup(id))));
      const foreign = ["short-foreign-token", "x".repeat(90), "y".repeat(900)];
      await admin().import(
        environment,
        foreign.map((token, i) => imported(`foreign ${i}`, { token })),
      );
      expect(await reencryptAll(environment, { isDryRun: true })).toMatchObject({ uses: { k1: 23 }, count: 0 });
      const done = await reencryptAll(environment);
      expect(done).toMatchObject({ uses: { k1: 23 }, count: 23, failed: [] });
      expect(done.pages).toBeGreaterThan(3);
      expect(await reencryptAll(environment)).toMatchObject({ uses: { k2: 23 }, count: 0 });
      const turned = store({ ring: [NEXT] });
      for (const [i, { group }] of before.entries())
        expect((await turned.getOrCreate(environment, newGroup(ids[i] ?? ""))).group).toEqual(group);
      for (const [i, token] of foreign.entries()) {
        expect((await turned.getOrCreate(environment, newGroup(`foreign ${i}`))).group.token).toBe(token);
        expect((await turned.resolve(environment, token)).providedId).toBe(`foreign ${i}`);
      }
    });

    it("reports a token that cannot be decrypted, and continues with the next token", async () => {
      const environment = await newEnvironment();
      for (const id of ["a", "b", "c"]) await store().getOrCreate(environment, newGroup(id));
      await damageToken(redis(), environment, "b", "a");
      expect(await reencryptAll(environment)).toMatchObject({ uses: { k1: 3 }, count: 2, failed: ["b"] });
      // The token of `b` is encrypted with the old key. A worker also reports this token if its ring lacks the old key.
      expect(await reencryptAll(environment, { ring: [NEXT] })).toMatchObject({
        uses: { k1: 1, k2: 2 },
        failed: ["b"],
      });
    });

    it("does not overwrite concurrent changes", async () => {
      const environment = await newEnvironment();
      const ids = Array.from({ length: many(60) }, (_, i) => `group ${i}`);
      for (const id of ids) await store().getOrCreate(environment, newGroup(id));
      const tokens = new Map<string, string>();
      const change = async (id: string, i: number) => {
        const other = store({ worker: 1, ring: i % 2 === 0 ? [OLD, NEXT] : [NEXT, OLD] });
        await other.update(environment, id, { name: `changed ${i}` });
        if (i % 4 === 3) {
          const token = `foreign-of-${environment.name}-${i}`;
          await admin({ ring: [OLD, NEXT] }).import(environment, [imported(id, { token })], "upsert");
          tokens.set(id, token);
        } else tokens.set(id, (await other.rotate(environment, byId(id))).token);
        if (i % 5 === 0) await admin().delete(environment, id);
      };
      await Promise.all([...ids.map(change), reencryptAll(environment), reencryptAll(environment, { size: 3 })]);
      await reencryptAll(environment);
      const turned = store({ ring: [NEXT] });
      for (const [i, id] of ids.entries()) {
        if (i % 5 === 0) continue;
        const { group, created } = await turned.getOrCreate(environment, newGroup(id));
        expect([group.token, created]).toEqual([tokens.get(id), false]);
        expect((await turned.resolve(environment, group.token)).providedId).toBe(id);
      }
      await fails(store().get(environment, "group 0"), UserGroupNotFound);
    });
  });

  describe("encryption keys", () => {
    const MINUTE = 60_000;
    const now = () => Date.now() + 1000;
    const recorded = async () => Object.keys(await recordedCheckValues(redis())).sort();
    beforeEach(() => loseRecordedKeys(redis()));

    it("an encryption key is listed with its state", async () => {
      await noteKeyUse(client(), OLD);
      await noteKeyUse(client(), NEXT);
      const { keys, readTime } = await keysFor([NEXT, { ...OLD, id: "k3" }]).list();
      const time = expect.any(Number);
      const last = { isRecorded: true, lastEncryptTime: time };
      expect(keys).toEqual([
        { id: "k2", isPrimary: true, isHeld: true, ...last },
        { id: "k3", isPrimary: false, isHeld: true, isRecorded: false, lastEncryptTime: undefined },
        { id: "k1", isPrimary: false, isHeld: false, ...last },
      ]);
      expect(Math.abs(readTime - (keys[2]?.lastEncryptTime ?? 0))).toBeLessThan(MINUTE);
    });

    it("an encryption key cannot be retired if it is first in the ring, a group needs it, or a worker has used it recently", async () => {
      const environment = await newEnvironment();
      await store().getOrCreate(environment, newGroup("a"));
      await noteKeyUse(client(), OLD);
      await noteKeyUse(client(), NEXT);
      const keys = keysFor([NEXT, OLD], environment);
      await fails(keys.retire("k2", now()), TokenKeyInUse);
      await expect(keys.retire("k1", now() + MINUTE)).rejects.toThrow(`${environmentPath(environment)} needs the key`);
      await reencryptAll(environment);
      await fails(keys.retire("k1", now()), TokenKeyInUse);
      expect(await recorded()).toEqual(["k1", "k2"]);
      for (let times = 0; times < 2; times++) await keys.retire("k1", now() + MINUTE);
      expect(await recorded()).toEqual(["k2"]);
      // If a worker encrypts with a retired key, the key is recorded again.
      await noteKeyUse(client(), OLD);
      expect(await recorded()).toEqual(["k1", "k2"]);
    });

    it("an encryption key cannot be retired if another worker has used it during the re-encryption", async () => {
      const environment = await newEnvironment();
      await store().getOrCreate(environment, newGroup("a"));
      const other = store({ worker: 1, ring: [OLD, NEXT] });
      let token = "";
      const rotate = async () => {
        token = (await other.rotate(environment, byId("a"))).token;
      };
      const held = heldUpAt(client(), REPLACE_FIELDS.name, rotate);
      const all = { after: "", size: 7 };
      expect(await keysOn(held, [NEXT, OLD], []).reencrypt(environment, all, BY)).toMatchObject({ count: 0 });
      const keys = keysFor([NEXT, OLD], environment);
      await expect(keys.retire("k1", now() + MINUTE)).rejects.toThrow(`${environmentPath(environment)} needs the key`);
      expect(await reencryptAll(environment)).toMatchObject({ count: 1 });
      await keys.retire("k1", now() + MINUTE);
      const { group } = await store({ ring: [NEXT] }).getOrCreate(environment, newGroup("a"));
      expect(group.token).toBe(token);
    });

    it("an encryption key is required at the start of a worker as long as a group needs it", async () => {
      const environment = await newEnvironment();
      for (const id of ["a", "b", "c"]) await store().getOrCreate(environment, newGroup(id));
      await checkTokenKeys(client(), [OLD]);
      await checkTokenKeys(client(), [NEXT, OLD]);
      const lacking = await checkTokenKeys(client(), [NEXT]);
      expect(lacking).toEqual(["k1"]);
      const keys = keysFor([NEXT], environment);
      await fails(keys.requireUnneeded(lacking), StoreMisconfigured);
      await expect(keys.requireUnneeded(lacking)).rejects.toThrow(
        `TOKEN_KEYS lacks k1, which ${environmentPath(environment)} needs; add the key`,
      );
      await reencryptAll(environment);
      await noteKeyUse(client(), OLD);
      await expect(keys.requireUnneeded(lacking)).rejects.toThrow(/lacks k1, which another worker uses/);
      await setKeyUse(redis(), OLD, Date.now() - MINUTE);
      await keys.requireUnneeded(lacking);
      expect(await checkTokenKeys(client(), [NEXT])).toEqual([]);
    });
  });
}
