import { describe, expect, it } from "vitest";
import { TooManyEndedViewers, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { MAX_ENDED_VIEWERS } from "../../../src/domain/viewer-session.ts";
import { TokenCipher } from "../../../src/store/encryption.ts";
import { revokedSessionsKey, signingKeysKey } from "../../../src/store/keys.ts";
import { redisSigningKeys } from "../../../src/store/secret-keys/signing-keys.ts";
import { type ContractContext, contents, fails, newName, RING } from "../contract/context.ts";
import { newSigningKey } from "../contract/viewer-sessions.ts";
import { AUDIT, BY, testEnvironments } from "../stores.ts";

export function viewerSessionLayout({ store, admin, client, redis, withGroup }: ContractContext): void {
  describe("viewer sessions in Redis", () => {
    it("viewer sessions can be revoked for a limited number of single viewers, and old revocations do not count toward the limit", async () => {
      const { environment } = await withGroup();
      const { viewer } = await store().sessionSubject(environment, { by: "id", providedId: "a" });
      const ended = revokedSessionsKey(environment.number, viewer.teamId);
      const note = async (count: number, time: number) => {
        const notes = Array.from({ length: count }, (_, i) => [`v${time}-${i}`, `1:${time}`]);
        await redis().hset(ended, Object.fromEntries(notes));
      };
      const end = (viewerId?: string) => admin().endSessions(environment, { providedId: "a", viewerId }, BY);
      await end("bob");
      await note(MAX_ENDED_VIEWERS - 1, Date.now());
      const before = await contents(redis(), environment);
      await fails(end("alice"), TooManyEndedViewers);
      expect(await contents(redis(), environment)).toEqual(before);
      await end("bob");
      await end();
      expect(await redis().exists(ended)).toBe(0);
      await note(MAX_ENDED_VIEWERS, Date.now() - 2 * 3_600_000);
      await end("alice");
      expect(await redis().hlen(ended)).toBe(1);
      await fails(admin().endSessions(environment, { providedId: "b", viewerId: undefined }, BY), UserGroupNotFound);
    });
  });

  describe("signing keys in Redis", () => {
    const environments = () => testEnvironments(client());
    const created = () => environments().create({ name: newName(), tag: undefined });
    const keysWith = () => redisSigningKeys({ client: client(), cipher: new TokenCipher(RING), audit: AUDIT });

    it("a signing key cannot be decrypted if it was moved to another environment, id or public key", async () => {
      const [one, other] = [await created(), await created()];
      const [key, decoy] = [await newSigningKey(), await newSigningKey()];
      await keysWith().replace(one, [key], { was: "", by: BY });
      const text = (await redis().hget(signingKeysKey(one.number), key.kid)) ?? "";
      const moved = { [decoy.kid]: text, [key.kid]: text.replace(key.x, decoy.x) };
      await redis().hset(signingKeysKey(one.number), moved);
      await redis().hset(signingKeysKey(other.number), { [key.kid]: text });
      for (const environment of [one, other])
        for (const { d } of (await keysWith().read(environment)).keys) expect(d).toBeUndefined();
    });
  });
}
