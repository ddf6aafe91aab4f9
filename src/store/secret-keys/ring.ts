import type { StoreClient } from "../connection/client.ts";
import { StoreMisconfigured } from "../connection/errors.ts";
import { deriveKey, type RingKey } from "../encryption.ts";
import { TOKEN_KEYS_KEY } from "../keys.ts";
import { recordFromAnswer, type StoredRecord } from "../records.ts";
import { NOTE_KEY_USE } from "../scripts.ts";

/** The interval at which a process records the use of its encryption key, in milliseconds. */
export const NOTE_INTERVAL_MS = 10_000;

/** Returns a value that identifies a key, but does not reveal the key. */
export function checkValue(secret: Uint8Array): string {
  return deriveKey(secret, "token-key-check").toString("base64url");
}

/**
 * Compares the ring with the keys that are recorded in Redis, and records the first key of the ring.
 *
 * @returns the ids of recorded keys that the ring lacks. Data may still need these keys
 * @throws StoreMisconfigured if the ring contains none of the recorded keys, or has another key under a recorded id;
 *   StoreUnavailable; TooFewReplicas
 */
export async function checkTokenKeys(client: StoreClient, ring: readonly RingKey[]): Promise<readonly string[]> {
  let known = recordedKeys(await client.run("token-keys", "hgetall", [TOKEN_KEYS_KEY]));
  requireFit(known, ring);
  const [current] = ring;
  if (current && !known.has(current.id)) {
    // Check again, because another process may have recorded a different key with the same id after the read.
    known = await noteKeyUse(client, current);
    requireFit(known, ring);
  }
  const ids = new Set(ring.map(({ id }) => id));
  return [...known.keys()].filter((id) => !ids.has(id));
}

interface RecordedKey {
  readonly checkValue: string;
  /** The time of the last use of the key, by Redis' clock. */
  readonly useTime: number;
}

export function recordedKeys(record: StoredRecord): ReadonlyMap<string, RecordedKey> {
  const decode = (text = ""): RecordedKey => {
    const [checkValue = "", useTime] = text.split(" ");
    return { checkValue, useTime: Number(useTime) };
  };
  return new Map(Object.entries(record).map(([id, text]) => [id, decode(text)]));
}

function requireFit(known: ReadonlyMap<string, RecordedKey>, ring: readonly RingKey[]): void {
  const held = ring.filter(({ id }) => known.has(id));
  const wrong = held.filter(({ id, secret }) => known.get(id)?.checkValue !== checkValue(secret)).map(({ id }) => id);
  if (wrong.length > 0) {
    throw new StoreMisconfigured(
      `TOKEN_KEYS has another secret for the id ${wrong.join(", ")} than the secret that encrypted tokens in this Redis; ` +
        `restore that secret for this id, and give a new key another id. If you need no group in this Redis, remove the old key with: redis-cli HDEL ${TOKEN_KEYS_KEY} ${wrong.join(" ")}`,
    );
  }
  if (known.size > 0 && held.length === 0) {
    const ids = [...known.keys()];
    throw new StoreMisconfigured(
      `TOKEN_KEYS has none of the keys that encrypted tokens in this Redis (${ids.join(", ")}); ` +
        `add the old keys after the new key, or check REDIS_URL. If you need no group in this Redis, remove the old keys with: redis-cli HDEL ${TOKEN_KEYS_KEY} ${ids.join(" ")}`,
    );
  }
}

/** Records the use of a key, and returns all recorded keys. @throws StoreUnavailable, TooFewReplicas */
export async function noteKeyUse(client: StoreClient, { id, secret }: RingKey) {
  const args = { key: TOKEN_KEYS_KEY, id, check: checkValue(secret) };
  return recordedKeys(recordFromAnswer(await client.change("token-keys", NOTE_KEY_USE, args)).record);
}
