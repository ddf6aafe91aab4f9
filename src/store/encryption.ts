import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import type { Environment } from "../domain/environment.ts";
import { type ChangeOutcome, RecordUnreadable } from "../domain/errors.ts";
import { PACKED_TOKEN_BYTES, packToken, unpackToken } from "../domain/token.ts";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const GCM = { authTagLength: TAG_BYTES } as const;

/**
 * What a token is decrypted with, synchronously and one after another: node:crypto has copied or used the bytes when its
 * functions return.
 */
const PACKED = Buffer.alloc(PACKED_TOKEN_BYTES + TAG_BYTES);
const PACKED_TOKEN = PACKED.subarray(0, PACKED_TOKEN_BYTES);
const PACKED_TAG = PACKED.subarray(PACKED_TOKEN_BYTES);
const PACKED_CHARACTERS = Math.ceil((PACKED.length * 4) / 3);
const NONCE = Buffer.alloc(NONCE_BYTES);

/** Of a token's digest: 128 bits, the first eight in hexadecimal, the others in base64url. */
const TOKEN_DIGEST_BYTES = 16;
const TOKEN_DIGEST_LENGTH = 22;

/** A key of the ring that encrypts tokens. */
export interface RingKey {
  /** 1 to 32 letters, digits, `_` or `-`. */
  readonly id: string;
  /** 32 bytes. */
  readonly secret: Uint8Array;
}

/** A token as it is stored. */
export interface EncryptedToken {
  /** Id of the key of the ring that it is encrypted under. */
  readonly keyId: string;
  /** The encrypted text and its tag in base64url. */
  readonly text: string;
  /** Whether the text is what `packToken` leaves of a token of ours, and not the token itself. */
  readonly isPacked: boolean;
}

/** A secret other than a token as it is stored. */
export interface SealedSecret {
  /** Id of the key of the ring that it is encrypted under. */
  readonly keyId: string;
  /** Nonce, encrypted text and tag in base64url. */
  readonly text: string;
}

/** What secrets are bound to: no later environment of the same name has its number. */
type EnvironmentNumber = Pick<Environment, "number">;

/** What the tokens of an environment are encrypted with. */
interface EnvironmentCipher {
  /** By the ids of the ring. */
  readonly keys: ReadonlyMap<string, KeyObject>;
  /** What its tokens are bound to: its number, a zero byte and, in the place of the last bytes, a token's digest. */
  readonly binding: Buffer;
}

/** SHA-256 of a text in base64url. */
export function digest(text: string): string {
  return hash("sha256", text, "base64url");
}

/**
 * The first 128 bits of SHA-256 of a user group token: all that Redis holds of it in the clear. Somebody who knows those of a
 * million tokens needs 2^108 tries to find one of the tokens. The whole digest would add a sixteenth to a group's record. The
 * first two characters, one byte in hexadecimal, say which of the 256 hashes of the index has the token.
 */
export function tokenDigest(token: string): string {
  const bytes = hash("sha256", token, "buffer");
  return bytes.toString("hex", 0, 1) + bytes.toString("base64url", 1, TOKEN_DIGEST_BYTES);
}

/**
 * A key for one purpose, from which neither the secret nor the key for another
 * purpose can be found: HKDF (RFC 5869) with SHA-256 and no salt.
 */
export function deriveKey(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", purpose, KEY_BYTES));
}

/**
 * AES-256-GCM under a ring of keys: the first encrypts, all decrypt. Each environment has keys of its own, derived from those
 * of the ring, so that the nonces of one key are those of one environment.
 */
export class TokenCipher {
  #ring: readonly RingKey[] = [];
  #currentId = "";
  #keyIdList = "";
  #environments = new WeakMap<EnvironmentNumber, EnvironmentCipher>();

  /** @param ring at least one key */
  constructor(ring: readonly RingKey[]) {
    this.use(ring);
  }

  /** Has tokens be encrypted and decrypted by another ring from now on. @param ring at least one key */
  use(ring: readonly RingKey[]): void {
    if (ring[0] === undefined) throw new TypeError("a key ring needs a key");
    this.#ring = ring;
    this.#currentId = ring[0].id;
    this.#keyIdList = `,${this.keyIds.join(",")},`;
    this.#environments = new WeakMap();
  }

  /** The keys in use. The first key encrypts. */
  get ring(): readonly RingKey[] {
    return this.#ring;
  }

  /** The ids of the ring, the one first that encrypts. */
  get keyIds(): readonly string[] {
    return this.#ring.map(({ id }) => id);
  }

  /** The ids of the ring as one text for scripts, with a comma before and after each id. Ids hold no commas. */
  get keyIdList(): string {
    return this.#keyIdList;
  }

  /**
   * Encrypts a token, bound to its environment and to its own digest: it
   * decrypts for these alone. The nonce is the beginning of the digest, which
   * is as random as the token and belongs to this text alone, for the form of
   * the text follows from the token.
   *
   * @param digest of the token, by `tokenDigest`
   */
  encrypt(environment: EnvironmentNumber, token: string, digest: string): EncryptedToken {
    const packed = packToken(token);
    const { keys, binding } = this.#of(environment, digest);
    const cipher = createCipheriv(ALGORITHM, keys.get(this.#currentId) as KeyObject, NONCE);
    cipher.setAAD(binding);
    const text = Buffer.concat([cipher.update(packed ?? Buffer.from(token)), cipher.final(), cipher.getAuthTag()]);
    return { keyId: this.#currentId, text: text.toString("base64url"), isPacked: packed !== undefined };
  }

  /**
   * @param digest that the token must have, by `tokenDigest`
   * @throws RecordUnreadable when the key is not in the ring, or the text is not that of this token of this environment
   */
  decrypt(environment: EnvironmentNumber, { keyId, text, isPacked }: EncryptedToken, digest: string): string {
    const { keys, binding } = this.#of(environment, digest);
    const key = keys.get(keyId);
    if (!key) throw keyMissing(keyId);
    const bytes = isPacked ? PACKED : Buffer.from(text, "base64url");
    const isWhole = isPacked
      ? text.length === PACKED_CHARACTERS && PACKED.write(text, "base64url") === PACKED.length
      : bytes.length >= TAG_BYTES;
    if (!isWhole) throw new RecordUnreadable(new Error("an encrypted token is not of its length"));
    const decipher = createDecipheriv(ALGORITHM, key, NONCE, GCM);
    decipher.setAAD(binding);
    decipher.setAuthTag(isPacked ? PACKED_TAG : bytes.subarray(-TAG_BYTES));
    try {
      const token = decipher.update(isPacked ? PACKED_TOKEN : bytes.subarray(0, -TAG_BYTES));
      // Throws when the tag does not match; the text itself is whole by now.
      decipher.final();
      return isPacked ? unpackToken(token) : token.toString();
    } catch (cause) {
      throw new RecordUnreadable(cause);
    }
  }

  /**
   * Encrypts a secret of an environment other than a token, bound to both and to what it is called. The nonce is random.
   *
   * @param name of the secret, not secret itself
   */
  seal(environment: EnvironmentNumber, name: string, secret: string): SealedSecret {
    const { id, secret: key } = this.#ring[0] as RingKey;
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, sealingKey(key, environment), nonce);
    cipher.setAAD(Buffer.from(`${environment.number}\0${name}`));
    const text = Buffer.concat([nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
    return { keyId: id, text: text.toString("base64url") };
  }

  /** Decrypts what `seal` made. @throws RecordUnreadable when the key is not in the ring, or it is another secret's */
  unseal(environment: EnvironmentNumber, name: string, { keyId, text }: SealedSecret): string {
    const key = this.#ring.find(({ id }) => id === keyId);
    if (!key) throw keyMissing(keyId, { what: "a secret" });
    const bytes = Buffer.from(text, "base64url");
    try {
      const nonce = bytes.subarray(0, NONCE_BYTES);
      const decipher = createDecipheriv(ALGORITHM, sealingKey(key.secret, environment), nonce, GCM);
      decipher.setAAD(Buffer.from(`${environment.number}\0${name}`));
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      const secret = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
      return Buffer.concat([secret, decipher.final()]).toString();
    } catch (cause) {
      throw new RecordUnreadable(cause);
    }
  }

  /**
   * The keys of an environment. Until the next call `NONCE` and its binding are those of the token with the digest.
   *
   * @throws RecordUnreadable
   */
  #of(environment: EnvironmentNumber, digest: string): EnvironmentCipher {
    if (digest.length !== TOKEN_DIGEST_LENGTH || NONCE.write(digest.slice(2), "base64url") !== NONCE_BYTES) {
      throw new RecordUnreadable(new Error("a token's digest is not of its length"));
    }
    let found = this.#environments.get(environment);
    if (!found) {
      const { number } = environment;
      const keyOf = (secret: Uint8Array) => createSecretKey(deriveKey(secret, `user-group-token ${number}`));
      const keys = new Map(this.#ring.map(({ id, secret }) => [id, keyOf(secret)]));
      found = { keys, binding: Buffer.from(`${number}\0${"=".repeat(TOKEN_DIGEST_LENGTH)}`) };
      this.#environments.set(environment, found);
    }
    found.binding.write(digest, found.binding.length - TOKEN_DIGEST_LENGTH, "latin1");
    return found;
  }
}

/**
 * The error for a token, or for `what` else is encrypted, whose key is not in the ring.
 *
 * @param outcome of a change; undefined: the caller only reads
 */
export function keyMissing(
  keyId: string,
  { what = "a token", outcome }: { readonly what?: string; readonly outcome?: ChangeOutcome } = {},
): RecordUnreadable {
  const cause = new Error(`${what} is encrypted under the key ${JSON.stringify(keyId)}, which TOKEN_KEYS lacks`);
  return new RecordUnreadable(cause, outcome);
}

function sealingKey(secret: Uint8Array, environment: EnvironmentNumber): KeyObject {
  return createSecretKey(deriveKey(secret, `signing-key ${environment.number}`));
}
