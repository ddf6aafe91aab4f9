import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { type EnvironmentName, environmentPath } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** A key of the ring that encrypts tokens. */
export interface RingKey {
  /** 1 to 32 letters, digits, `_` or `-`. */
  readonly id: string;
  /** 32 bytes. */
  readonly secret: Uint8Array;
}

/** SHA-256 of a credential in base64url: all that an index holds of it. */
export function digest(credential: string): string {
  return hash("sha256", credential, "base64url");
}

/**
 * A key for one purpose, from which neither the secret nor the key for another
 * purpose can be found: HKDF (RFC 5869) with SHA-256 and no salt.
 */
export function deriveKey(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", purpose, KEY_BYTES));
}

/**
 * AES-256-GCM under a ring of keys: the first encrypts, all decrypt. Each
 * environment has keys of its own, derived from those of the ring, so that the
 * random nonces of one key are those of one environment.
 */
export class TokenCipher {
  readonly #ring: readonly RingKey[];
  readonly #currentId: string;
  readonly #keys = new WeakMap<EnvironmentName, ReadonlyMap<string, KeyObject>>();

  /** @param ring at least one key */
  constructor(ring: readonly RingKey[]) {
    if (ring[0] === undefined) throw new TypeError("a key ring needs a key");
    this.#ring = ring;
    this.#currentId = ring[0].id;
  }

  /**
   * Encrypts a token as `KEY_ID.BASE64URL(nonce, text, tag)`, bound to its
   * environment and to its own digest: it decrypts for these alone.
   */
  encrypt(environment: EnvironmentName, token: string, tokenDigest: string): string {
    const iv = randomBytes(IV_BYTES);
    const key = this.#keysOf(environment).get(this.#currentId) as KeyObject;
    const cipher = createCipheriv(ALGORITHM, key, iv);
    cipher.setAAD(binding(environment, tokenDigest));
    const text = Buffer.concat([iv, cipher.update(token, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return `${this.#currentId}.${text.toString("base64url")}`;
  }

  /**
   * @param tokenDigest the digest that the token must have
   * @throws RecordUnreadable when the key is not in the ring, or the text is not that of this token of this environment
   */
  decrypt(environment: EnvironmentName, encrypted: string, tokenDigest: string): string {
    const dot = encrypted.indexOf(".");
    const key = this.#keysOf(environment).get(encrypted.slice(0, dot));
    if (!key) throw new RecordUnreadable(new Error("a token is encrypted under a key that TOKEN_KEYS does not hold"));
    const bytes = Buffer.from(encrypted.slice(dot + 1), "base64url");
    const end = bytes.length - TAG_BYTES;
    if (end < IV_BYTES) throw new RecordUnreadable(new Error("an encrypted token is cut short"));
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(binding(environment, tokenDigest));
    decipher.setAuthTag(bytes.subarray(end));
    try {
      const token = decipher.update(bytes.subarray(IV_BYTES, end));
      // Throws when the tag does not match; the text itself is whole by now.
      decipher.final();
      return token.toString();
    } catch (cause) {
      throw new RecordUnreadable(cause);
    }
  }

  #keysOf(environment: EnvironmentName): ReadonlyMap<string, KeyObject> {
    let keys = this.#keys.get(environment);
    if (!keys) {
      const purpose = `user-group-token ${environmentPath(environment)}`;
      keys = new Map(this.#ring.map(({ id, secret }) => [id, createSecretKey(deriveKey(secret, purpose))]));
      this.#keys.set(environment, keys);
    }
    return keys;
  }
}

function binding(environment: EnvironmentName, tokenDigest: string): Buffer {
  return Buffer.from(`${environmentPath(environment)}\0${tokenDigest}`);
}
