import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import {
  EnvironmentNotFound,
  TokenNotFound,
  UserGroupNotFound,
  ViewerSessionEnded,
} from "../../../src/domain/errors.ts";
import type { SessionReference, SigningKey } from "../../../src/domain/viewer-session.ts";
import { newKeyId } from "../../../src/sessions/session.ts";
import { newKeyPair } from "../../../src/sessions/signing.ts";
import { SigningKeys } from "../../../src/sessions/signing-keys.ts";
import type { StoreClient } from "../../../src/store/connection/client.ts";
import { StoreMisconfigured } from "../../../src/store/connection/errors.ts";
import { type RingKey, TokenCipher } from "../../../src/store/encryption.ts";
import { REPLACE_FIELDS } from "../../../src/store/scripts.ts";
import { redisSigningKeys } from "../../../src/store/secret-keys/signing-keys.ts";
import { RedisTokenKeys } from "../../../src/store/secret-keys/token-keys.ts";
import { leftovers, loseRevocations } from "../stored-state.ts";
import { AUDIT, BY, testEnvironments } from "../stores.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  eventsOf,
  fails,
  heldUpAt,
  imported,
  NEXT,
  newGroup,
  newName,
  RING,
} from "./context.ts";

export function viewerSessionContract({ store, admin, client, redis, withGroup }: ContractContext): void {
  async function session(environment: Environment, viewerId?: string): Promise<SessionReference> {
    const { viewer, generation } = await store().sessionSubject(environment, { by: "id", providedId: "a" });
    return { providedId: "a", teamId: viewer.teamId, generation, viewerId };
  }
  const isEnded = (environment: Environment, reference: SessionReference, worker = 0) =>
    store({ worker })
      .resolveSession(environment, reference)
      .then(
        () => false,
        (error: unknown) => {
          expect(error).toBeInstanceOf(ViewerSessionEnded);
          return true;
        },
      );

  describe("viewer sessions", () => {
    it("viewer sessions can be created by id, and by token even in its grace period", async () => {
      const { environment, group } = await withGroup();
      const { token: _, etag: _etag, createTime: _c, updateTime: _u, tokenCreateTime: _t, ...shown } = group;
      const subject = { viewer: { ...shown, tokenExpireTime: undefined }, generation: 0 };
      expect(await store().sessionSubject(environment, byToken(group.token).target)).toEqual(subject);
      expect(await store().sessionSubject(environment, byId("a").target)).toEqual(subject);
      await store().rotate(environment, byId("a", { graceMs: 60_000 }));
      const { viewer, generation } = await store().sessionSubject(environment, byToken(group.token).target);
      expect([viewer.tokenExpireTime, generation]).toEqual([expect.any(Number), 0]);
      await store().rotate(environment, byId("a"));
      await fails(store().sessionSubject(environment, byToken(group.token).target), TokenNotFound);
      await fails(store().sessionSubject(environment, byId("b").target), UserGroupNotFound);
      expect(await store().resolveSession(environment, await session(environment))).toMatchObject({ providedId: "a" });
    });

    it.each<[string, string, (environment: Environment, token: string) => Promise<unknown>]>([
      ["a rotation", "are revoked", (environment) => store().rotate(environment, byId("a"))],
      [
        "a rotation with a grace period",
        "stay valid",
        (environment) => store().rotate(environment, byId("a", { graceMs: 60_000 })),
      ],
      ["a revocation", "are revoked", (environment) => admin().revokeTokens(environment, "a")],
      ["an update", "stay valid", (environment) => store().update(environment, "a", { name: "other" })],
      [
        "an import of another token",
        "are revoked",
        (environment) => admin().import(environment, [imported("a")], "upsert"),
      ],
      [
        "an import with the same token",
        "stay valid",
        (environment) => admin().import(environment, [imported("a", { token: undefined, name: "x" })], "upsert"),
      ],
      [
        "an import with a grace period",
        "stay valid",
        (environment) => admin().import(environment, [imported("a")], { mode: "upsert", graceMs: 60_000 }),
      ],
      ["a deletion", "are revoked", (environment) => admin().delete(environment, byId("a").target)],
      [
        "a revocation of all sessions",
        "are revoked",
        (environment) => admin().endSessions(environment, { providedId: "a", viewerId: undefined }, BY),
      ],
    ])("viewer sessions created before %s %s", async (_title, outcome, change) => {
      const ends = outcome === "are revoked";
      const { environment, group } = await withGroup();
      const before = [await session(environment), await session(environment, "bob")];
      await change(environment, group.token);
      for (const worker of [0, 1])
        for (const each of before) expect(await isEnded(environment, each, worker)).toBe(ends);
      await store().getOrCreate(environment, newGroup("a"));
      expect(await isEnded(environment, await session(environment, "bob"))).toBe(false);
      for (const each of before) expect(await isEnded(environment, each)).toBe(ends);
    });

    it("the sessions of one viewer can be revoked separately, and later sessions of this viewer are valid", async () => {
      const { environment, group } = await withGroup();
      const bob = await session(environment, "bob");
      const others = [await session(environment, "alice"), await session(environment)];
      const end = (viewerId: string) =>
        admin({ worker: 1 }).endSessions(environment, { providedId: "a", viewerId }, BY);
      await end("bob");
      const later = await session(environment, "bob");
      expect(await isEnded(environment, bob)).toBe(true);
      for (const each of [...others, later]) expect(await isEnded(environment, each)).toBe(false);
      await end("bob");
      expect(await isEnded(environment, later)).toBe(true);
      for (const each of others) expect(await isEnded(environment, each)).toBe(false);
      expect(await eventsOf(client(), environment)).toHaveLength(3);
      // The revocations have changed no field of the group. The stored data does not contain the viewer id in plain
      // text.
      expect(await store().get(environment, "a")).toEqual(group);
      expect(JSON.stringify(await contents(redis(), environment))).not.toContain("bob");
    });

    it("viewer sessions are rejected if their generation, team id or group id is wrong", async () => {
      const { environment } = await withGroup();
      const real = await session(environment);
      for (const generation of [1, -1, Number.NaN])
        expect(await isEnded(environment, { ...real, generation })).toBe(true);
      expect(await isEnded(environment, { ...real, teamId: real.teamId + 1 })).toBe(true);
      expect(await isEnded(environment, { ...real, providedId: "b" })).toBe(true);
    });

    it.each<[string, string | undefined]>([
      ["the group", undefined],
      ["one viewer", "bob"],
    ])(
      "viewer sessions stay revoked after Redis loses the revocations, even if a call then revokes the sessions of %s again",
      async (_title, viewerId) => {
        const { environment } = await withGroup();
        const end = () => admin().endSessions(environment, { providedId: "a", viewerId }, BY);
        const first = await session(environment, viewerId);
        await end();
        const second = await session(environment, viewerId);
        await end();
        await loseRevocations(redis(), environment, "a", first.teamId);
        expect(await isEnded(environment, second)).toBe(true);
        // The generation of a session is a time in milliseconds. Wait, so that the next revocation gets a later
        // generation. In production, a failover causes the loss, and takes longer than a millisecond.
        await waitFor("the millisecond is over", () => Date.now() > second.generation + 1);
        await end();
        expect([await isEnded(environment, first), await isEnded(environment, second)]).toEqual([true, true]);
        expect(await isEnded(environment, await session(environment, viewerId))).toBe(false);
      },
    );
  });
}

const NOW = 1_800_000_000_000;

export async function newSigningKey(given: Partial<SigningKey> = {}): Promise<SigningKey> {
  return { kid: newKeyId(), createTime: NOW, activeTime: NOW, ...(await newKeyPair()), sealed: undefined, ...given };
}

export function signingKeyContract({ client, redis }: ContractContext): void {
  const keysWith = (ring = RING, worker = 0) =>
    redisSigningKeys({ client: client(worker), cipher: new TokenCipher(ring), audit: AUDIT });
  const created = () => testEnvironments(client()).create({ name: newName(), tag: undefined });
  const shown = ({ kid, createTime, activeTime, x, y, d }: SigningKey) => ({ kid, createTime, activeTime, x, y, d });

  describe("signing keys", () => {
    it("signing keys are read with unchanged values, and private keys are stored only encrypted", async () => {
      const environment = await created();
      expect(await keysWith().read(environment)).toMatchObject({ keys: [], version: "" });
      const keys = [
        await newSigningKey(),
        await newSigningKey({ activeTime: NOW + 1 }),
        await newSigningKey({ d: undefined }),
      ];
      const made = await keysWith().replace(environment, keys, { was: "", by: BY });
      expect(made.isMade).toBe(true);
      const read = await keysWith(RING, 1).read(environment);
      expect(read.keys.map(shown)).toEqual(expect.arrayContaining(keys.map(shown)));
      expect([read.keys.length, read.version]).toEqual([3, made.version]);
      const stored = JSON.stringify(await contents(redis(), environment));
      for (const { d } of keys) if (d) expect(stored).not.toContain(d);
    });

    it("signing keys are created by only one of several concurrent calls, and a change fails if it is based on an old version", async () => {
      const environment = await created();
      const race = await Promise.all(
        [0, 1, 0, 1].map(async (worker) =>
          keysWith(RING, worker).replace(environment, [await newSigningKey()], { was: "", by: BY }),
        ),
      );
      expect(race.filter(({ isMade }) => isMade)).toHaveLength(1);
      expect(new Set(race.map(({ keys }) => keys.map(({ kid }) => kid).join())).size).toBe(1);
      const [first] = race;
      const kept = first?.keys ?? [];
      const next = [...kept, await newSigningKey()];
      const { version, isMade } = await keysWith().replace(environment, next, { was: first?.version ?? "", by: BY });
      expect([isMade, version === first?.version]).toEqual([true, false]);
      const late = await keysWith().replace(environment, [], { was: first?.version ?? "", by: BY });
      expect([late.isMade, late.keys.length]).toEqual([false, 2]);
    });

    it("signing keys are created only once on demand, even by several workers", async () => {
      const environment = await created();
      const workers = [0, 1, 0].map(
        (worker) =>
          new SigningKeys({
            store: keysWith(RING, worker),
            environments: testEnvironments(client(worker)),
            confirmMissing: () => client(worker).confirmMissing(),
            unsubscribedMs: 5000,
            onOverdue: (error) => expect.fail(String(error)),
          }),
      );
      const signing = await Promise.all(workers.map((worker) => worker.signing(environment)));
      expect(new Set(signing.map(({ kid }) => kid)).size).toBe(1);
      const [one] = workers;
      const states = (await one?.list(environment)) ?? [];
      expect(states.map(({ state }) => state)).toEqual(["active", "standby"]);
      // A rotation activates the standby key only if this key has been published for long enough. The key of this test
      // is too young, so the states do not change. A replacement takes effect immediately.
      expect((await one?.rotate(environment, "rotate", BY))?.map(({ state }) => state)).toEqual(["active", "standby"]);
      const replaced = (await one?.rotate(environment, "replace", BY)) ?? [];
      expect(replaced.map(({ state }) => state)).toEqual(["active", "standby"]);
      expect(replaced.map(({ key }) => key.kid)).not.toContain(signing[0]?.kid);
      for (const worker of workers) worker.forget();
      const after = await Promise.all(workers.map((worker) => worker.signing(environment)));
      expect(new Set(after.map(({ kid }) => kid))).toEqual(new Set([replaced[0]?.key.kid]));
    });

    it("a signing key is stored without its private key as soon as the next key signs", async () => {
      const environment = await created();
      const old = Date.now() - 31 * 86_400_000;
      const keys = [
        await newSigningKey({ createTime: old, activeTime: old }),
        await newSigningKey({ createTime: old }),
      ];
      const second = { ...keys[1], activeTime: Date.now() - 1000 } as SigningKey;
      await keysWith().replace(environment, [keys[0] as SigningKey, second], { was: "", by: BY });
      const worker = new SigningKeys({
        ...{ store: keysWith(), environments: testEnvironments(client()) },
        confirmMissing: () => client().confirmMissing(),
        ...{ unsubscribedMs: 5000, onOverdue: () => {} },
      });
      expect((await worker.signing(environment)).kid).toBe(second.kid);
      const read = await keysWith().read(environment);
      expect(read.keys).toHaveLength(3);
      expect(read.keys.filter(({ d }) => d === undefined).map(({ kid }) => kid)).toEqual([keys[0]?.kid]);
    });

    it("signing keys are re-encrypted together with the tokens, and need their old encryption key until then", async () => {
      const environment = await created();
      const key = await newSigningKey();
      await keysWith().replace(environment, [key, await newSigningKey({ d: undefined })], { was: "", by: BY });
      const tokenKeysWith = (ring: readonly RingKey[]) => {
        const environments = {
          list: async () => ({ items: [{ ...environment, createTime: 0, deleteTime: undefined }], next: undefined }),
        };
        return new RedisTokenKeys({ client: client(), cipher: new TokenCipher(ring), audit: AUDIT, environments });
      };
      const lost = await keysWith([NEXT]).read(environment);
      expect(lost.keys.map(({ d }) => d)).toEqual([undefined, undefined]);
      await fails(tokenKeysWith([NEXT]).requireUnneeded(["k1"]), StoreMisconfigured);
      const page = { after: "", size: 1000 };
      const use = { userGroups: 0, signingKeys: 1, webhooks: 0 };
      const dry = await tokenKeysWith([NEXT]).reencrypt(environment, page, undefined);
      expect([[...dry.uses], dry.failed.signingKeys]).toEqual([[["k1", use]], [key.kid]]);
      await tokenKeysWith([NEXT, ...RING]).reencrypt(environment, page, BY);
      const read = await keysWith([NEXT]).read(environment);
      expect(read.keys.map(shown)).toContainEqual(shown(key));
      const after = await tokenKeysWith([NEXT]).reencrypt(environment, page, BY);
      expect([[...after.uses], after.failed.signingKeys]).toEqual([[["k2", use]], []]);
    });

    it("signing keys are not re-encrypted if another call changes them at the same time", async () => {
      const environment = await created();
      const was = await keysWith().replace(environment, [await newSigningKey()], { was: "", by: BY });
      const cipher = new TokenCipher([NEXT, ...RING]);
      const reencrypt = (on: StoreClient) =>
        redisSigningKeys({ client: on, cipher, audit: AUDIT }).reencrypt(environment, false);
      const keys = [...was.keys, await newSigningKey()];
      const replace = () => keysWith().replace(environment, keys, { was: was.version, by: BY });
      await reencrypt(heldUpAt(client(), REPLACE_FIELDS.name, replace));
      const replaced = await keysWith().read(environment);
      expect(replaced.keys.map(shown)).toEqual(expect.arrayContaining(keys.map(shown)));
      await reencrypt(client());
      const late = await keysWith().replace(environment, was.keys, { was: replaced.version, by: BY });
      expect([late.isMade, late.keys.length]).toEqual([false, 2]);
      const { keys: read } = await keysWith([NEXT]).read(environment);
      expect(read.map(shown)).toEqual(expect.arrayContaining(keys.map(shown)));
    });

    it("signing keys are deleted with their environment, and cannot be created in a deleted environment", async () => {
      const environment = await created();
      await keysWith().replace(environment, [await newSigningKey()], { was: "", by: BY });
      await testEnvironments(client()).delete(environment, true);
      expect(await leftovers(redis(), environment)).toEqual([]);
      await fails(keysWith().replace(environment, [await newSigningKey()], { was: "", by: BY }), EnvironmentNotFound);
      const again = await testEnvironments(client()).create(environment);
      await fails(keysWith().replace(environment, [await newSigningKey()], { was: "", by: BY }), EnvironmentNotFound);
      expect((await keysWith().replace(again, [await newSigningKey()], { was: "", by: BY })).isMade).toBe(true);
    });
  });
}
