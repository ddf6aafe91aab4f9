import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import type { SigningKey, SigningKeySet, SigningKeyStore } from "../../domain/viewer-session.ts";
import { changeEnvironment } from "../audit.ts";
import { sealingKeyId } from "../encryption.ts";
import type { GroupDeps } from "../groups/group-record.ts";
import { newsMessage, signingKeysKey } from "../keys.ts";
import { type ReadRecord, readRecord, recordFromAnswer } from "../records.ts";
import { REPLACE_FIELDS, SET_SIGNING_KEYS } from "../scripts.ts";

/** The field that contains the version of the keys. Each other field of the hash contains one signing key. */
const VERSION = "version";

/** Creates the store of signing keys. Keys of `TOKEN_KEYS` encrypt the private keys. */
export function redisSigningKeys({ client, cipher, audit }: GroupDeps) {
  /**
   * Encodes the times, the public key and the encrypted private key of a signing key. The private key may be missing.
   */
  const textOf = (environment: Environment, { kid, createTime, activeTime, x, y, d, sealed }: SigningKey): string => {
    const stored = sealed ?? (d === undefined ? [] : cipher.seal(environment, nameOf(kid, x, y), d));
    return [createTime, activeTime, x, y].concat(stored).join(".");
  };

  const keyOf = (environment: Environment, kid: string, stored: string): SigningKey => {
    const [created, active, x, y, ...parts] = stored.split(".");
    const times = { createTime: Number(created), activeTime: Number(active) };
    if (x === undefined || y === undefined || !Object.values(times).every(Number.isSafeInteger))
      throw new RecordUnreadable(new Error(`the signing key ${kid} lacks fields`));
    const key = { kid, ...times, x, y };
    if (parts.length < 2) return { ...key, d: undefined, sealed: undefined };
    const sealed = parts.join(".");
    // If the private key cannot be decrypted, still return the key, because its public key can verify sessions.
    return { ...key, d: cipher.unseal(environment, nameOf(kid, x, y), sealed), sealed };
  };

  const setOf = (environment: Environment, { record, now }: ReadRecord): SigningKeySet => {
    const { [VERSION]: version = "", ...texts } = record;
    const keys = Object.entries(texts).map(([kid, text = ""]) => keyOf(environment, kid, text));
    return { keys, version, now };
  };

  const read = async (environment: Environment): Promise<SigningKeySet> =>
    setOf(environment, await readRecord(client, "signing-keys", signingKeysKey(environment.number)));

  return {
    read,

    async replace(environment, keys, { was, by }) {
      const answer = await changeEnvironment({ client, audit, environment, by }, "signing-keys", SET_SIGNING_KEYS, {
        expectedVersion: was,
        message: newsMessage("signing-keys", environment),
        extraArgs: keys.flatMap((key) => [key.kid, textOf(environment, key)]),
      });
      return { ...setOf(environment, recordFromAnswer(answer)), isMade: answer[0] === "done" };
    },

    /**
     * Uses the first key of the ring to encrypt the private keys of an environment. If another call changes the keys at
     * the same time, this call writes nothing. In this case, a later call must encrypt the private keys.
     *
     * @returns `uses`: for each private key, the id of the key in `TOKEN_KEYS` that encrypted the private key before
     *   this call. `failed`: the ids of private keys that cannot be decrypted
     */
    async reencrypt(environment: Environment, isDryRun: boolean) {
      const { keys, version } = await read(environment);
      const sealed = keys.filter((key) => key.sealed !== undefined);
      const moved = sealed.filter((key) => key.d !== undefined && ringKeyOf(key) !== cipher.currentKeyId);
      if (moved.length > 0 && !isDryRun) {
        const texts = moved.flatMap((key) => [key.kid, textOf(environment, { ...key, sealed: undefined })]);
        // Write a new version. If another call replaces the keys at the same time, that call expects the old version.
        // That call therefore fails, and does not overwrite the newly encrypted keys.
        const change = { field: VERSION, expected: version, extraArgs: [...texts, VERSION, `${Number(version) + 1}`] };
        await client.change("reencrypt", REPLACE_FIELDS, { key: signingKeysKey(environment.number), ...change });
      }
      return { uses: sealed.map(ringKeyOf), failed: sealed.filter(({ d }) => d === undefined).map(({ kid }) => kid) };
    },
  } satisfies SigningKeyStore & { readonly reencrypt: unknown };
}

/** Returns the name of a private key for `TokenCipher.seal`. */
function nameOf(kid: string, x: string, y: string): string {
  return `signing-key ${kid} ${x} ${y}`;
}

function ringKeyOf({ sealed = "" }: SigningKey): string {
  return sealingKeyId(sealed);
}
