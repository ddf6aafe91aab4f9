import type { StoreClient } from "../connection/client.ts";
import { StoreMisconfigured } from "../connection/errors.ts";
import { deriveKey, type RingKey } from "../encryption.ts";
import { TOKEN_KEY_USES_KEY, TOKEN_KEYS_KEY } from "../keys.ts";
import { recordFromAnswer, type StoredRecord } from "../records.ts";
import { NOTE_KEY_USE } from "../scripts.ts";

/** How often a process notes under which key it encrypts, in milliseconds. */
export const NOTE_INTERVAL_MS = 10_000;

/** Identifies a key, and reveals nothing of it. */
export function checkValue(secret: Uint8Array): string {
  return deriveKey(secret, "token-key-check").toString("base64url");
}

/**
 * Compares the ring of keys with those that tokens in Redis were encrypted under, and records the key that will encrypt.
 *
 * Redis has a check value for each of those keys. A ring fits when it has at least one of them, or when Redis has none yet.
 *
 * @returns the ids of the keys that the ring lacks; tokens may still be encrypted under them
 * @throws StoreMisconfigured when the ring does not fit, or a key of it is not the one of that id; StoreUnavailable;
 *   TooFewReplicas
 */
export async function checkTokenKeys(client: StoreClient, ring: readonly RingKey[]): Promise<readonly string[]> {
  const known = new Map<string, string | undefined>(
    Object.entries(await client.run("token-keys", "hgetall", [TOKEN_KEYS_KEY])),
  );
  requireFit(known, ring);
  const [current] = ring;
  if (current && !known.has(current.id)) {
    // Another process may have noted a key in the meantime, even another one under this id.
    for (const [id, value] of Object.entries(await noteKeyUse(client, current))) known.set(id, value);
    requireFit(known, ring);
  }
  const ids = new Set(ring.map(({ id }) => id));
  return [...known.keys()].filter((id) => !ids.has(id));
}

function requireFit(known: ReadonlyMap<string, string | undefined>, ring: readonly RingKey[]): void {
  const held = ring.filter(({ id }) => known.has(id));
  const wrong = held.filter(({ id, secret }) => known.get(id) !== checkValue(secret)).map(({ id }) => id);
  if (wrong.length > 0) {
    throw new StoreMisconfigured(
      `TOKEN_KEYS holds another key ${wrong.join(", ")} than the one that tokens in this Redis are encrypted under; ` +
        `give it the right one, and a new key an id of its own. If no group here is worth keeping, forget the old key with: redis-cli HDEL ${TOKEN_KEYS_KEY} ${wrong.join(" ")}`,
    );
  }
  if (known.size > 0 && held.length === 0) {
    const ids = [...known.keys()];
    throw new StoreMisconfigured(
      `TOKEN_KEYS holds none of the keys that tokens in this Redis are encrypted under (${ids.join(", ")}); ` +
        `add them behind the new key, or check REDIS_URL. If no group here is worth keeping, forget them with: redis-cli HDEL ${TOKEN_KEYS_KEY} ${ids.join(" ")}`,
    );
  }
}

/**
 * Notes that this process encrypts under a key.
 *
 * @returns the check values of all keys, by their ids
 * @throws StoreUnavailable; TooFewReplicas after the change
 */
export async function noteKeyUse(client: StoreClient, { id, secret }: RingKey): Promise<StoredRecord> {
  const args = { key: TOKEN_KEYS_KEY, uses: TOKEN_KEY_USES_KEY, id, check: checkValue(secret) };
  return recordFromAnswer(await client.change("token-keys", NOTE_KEY_USE, args));
}
