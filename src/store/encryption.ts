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
import { packToken, unpackToken } from "../domain/token.ts";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const NONCE_CHARACTERS = (NONCE_BYTES * 4) / 3;
const TAG_BYTES = 16;
const GCM = { authTagLength: TAG_BYTES } as const;

const TOKEN_DIGEST_BYTES = 16;
/** The first byte has two hexadecimal characters. The other bytes are in base64url. */
const TOKEN_DIGEST_LENGTH = 22;

export interface RingKey {
  /** 1 to 32 letters, digits, `_` or `-`. */
  readonly id: string;
  /** 32 bytes. */
  readonly secret: Uint8Array;
}

export interface EncryptedToken {
  readonly keyId: string;
  /** The encrypted bytes and the authentication tag, in base64url. */
  readonly text: string;
  /** Whether the encrypted bytes are a result of `packToken`. If false, the encrypted bytes are the token in UTF-8. */
  readonly isPacked: boolean;
}

type EnvironmentNumber = Pick<Environment, "number">;

/** Returns the SHA-256 of a text, in base64url. */
export function digest(text: string): string {
  return hash("sha256", text, "base64url");
}

/**
 * Returns the first 128 bits of the SHA-256 of a user group token. The first two characters select one of the 256 Redis
 * hashes of the token index. An attacker with a million digests needs 2^108 tries to find one of the tokens. The full
 * SHA-256 would make the record of a group 6 % larger.
 */
export function tokenDigest(token: string): string {
  const bytes = hash("sha256", token, "buffer");
  return bytes.toString("hex", 0, 1) + bytes.toString("base64url", 1, TOKEN_DIGEST_BYTES);
}

/** Derives a key for one purpose by HKDF (RFC 5869) with SHA-256 and no salt. */
export function deriveKey(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", purpose, KEY_BYTES));
}

/**
 * Encrypts with AES-256-GCM and a ring of keys (docs/decisions/0002-token-encryption.md). The first key encrypts, and
 * all keys decrypt. Each environment has separate keys, derived from the ring.
 */
export class TokenCipher {
  #ring: readonly RingKey[] = [];
  #keys = new WeakMap<EnvironmentNumber, ReadonlyMap<string, KeyObject>>();

  constructor(ring: readonly RingKey[]) {
    this.use(ring);
  }

  /** Replaces the ring. @param ring must contain at least one key */
  use(ring: readonly RingKey[]): void {
    if (ring[0] === undefined) throw new TypeError("a key ring needs a key");
    this.#ring = ring;
    this.#keys = new WeakMap();
  }

  get ring(): readonly RingKey[] {
    return this.#ring;
  }

  get currentKeyId(): string {
    return (this.#ring[0] as RingKey).id;
  }

  /** The ids of the keys, for scripts. A comma precedes and follows each id. */
  get keyIdList(): string {
    return `,${this.#ring.map(({ id }) => id).join(",")},`;
  }

  /** Encrypts a token. @param digest the `tokenDigest` of the token. The nonce is a part of this digest */
  encrypt(environment: EnvironmentNumber, token: string, digest: string): EncryptedToken {
    const packed = packToken(token);
    const keyId = this.currentKeyId;
    const key = this.#keysOf(environment).get(keyId) as KeyObject;
    const text = encrypt(key, nonceOf(digest), `${environment.number}\0${digest}`, packed ?? Buffer.from(token));
    return { keyId, text: text.toString("base64url"), isPacked: packed !== undefined };
  }

  /** @throws RecordUnreadable if the ring lacks the key, or if `encrypt` got another environment or digest */
  decrypt(environment: EnvironmentNumber, { keyId, text, isPacked }: EncryptedToken, digest: string): string {
    const key = this.#keysOf(environment).get(keyId);
    if (!key) throw keyMissing(keyId);
    const encrypted = Buffer.from(text, "base64url");
    const token = decrypt(key, nonceOf(digest), `${environment.number}\0${digest}`, encrypted);
    return isPacked ? unpackToken(token) : token.toString();
  }

  /**
   * Encrypts a secret that is not a token. The nonce is random. The result can be decrypted only with the same
   * environment and name.
   *
   * @returns `KEY.TEXT`. KEY is the id of the key. TEXT is the nonce and the encrypted bytes, in base64url
   */
  seal(environment: EnvironmentNumber, name: string, secret: string): string {
    const keyId = this.currentKeyId;
    const nonce = randomBytes(NONCE_BYTES);
    const key = this.#sealingKey(environment, keyId);
    const text = encrypt(key, nonce, `${environment.number}\0${name}`, Buffer.from(secret));
    return `${keyId}.${Buffer.concat([nonce, text]).toString("base64url")}`;
  }

  /** Returns the secret. Returns undefined if the ring lacks the key, or if `seal` got another environment or name. */
  unseal(environment: EnvironmentNumber, name: string, sealed: string): string | undefined {
    const [keyId = "", text = ""] = sealed.split(".");
    const bytes = Buffer.from(text, "base64url");
    const [nonce, encrypted] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES)];
    try {
      const key = this.#sealingKey(environment, keyId);
      return decrypt(key, nonce, `${environment.number}\0${name}`, encrypted).toString();
    } catch (error) {
      if (error instanceof RecordUnreadable) return undefined;
      throw error;
    }
  }

  #sealingKey({ number }: EnvironmentNumber, keyId: string): KeyObject {
    const ringKey = this.#ring.find(({ id }) => id === keyId);
    if (!ringKey) throw keyMissing(keyId);
    return createSecretKey(deriveKey(ringKey.secret, `signing-key ${number}`));
  }

  #keysOf(environment: EnvironmentNumber): ReadonlyMap<string, KeyObject> {
    let keys = this.#keys.get(environment);
    if (!keys) {
      const purpose = `user-group-token ${environment.number}`;
      keys = new Map(this.#ring.map(({ id, secret }) => [id, createSecretKey(deriveKey(secret, purpose))]));
      this.#keys.set(environment, keys);
    }
    return keys;
  }
}

/** Returns the id of the key in a result of `seal`. */
export function sealingKeyId(sealed: string): string {
  return sealed.split(".", 1)[0] ?? "";
}

function encrypt(key: KeyObject, nonce: Uint8Array, binding: string, bytes: Uint8Array): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, nonce);
  cipher.setAAD(Buffer.from(binding));
  return Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: KeyObject, nonce: Uint8Array, binding: string, encrypted: Uint8Array): Buffer {
  try {
    const decipher = createDecipheriv(ALGORITHM, key, nonce, GCM);
    decipher.setAAD(Buffer.from(binding));
    decipher.setAuthTag(encrypted.subarray(-TAG_BYTES));
    const bytes = decipher.update(encrypted.subarray(0, -TAG_BYTES));
    // This call throws if the tag does not match.
    decipher.final();
    return bytes;
  } catch (cause) {
    throw new RecordUnreadable(cause);
  }
}

function nonceOf(digest: string): Buffer {
  if (digest.length !== TOKEN_DIGEST_LENGTH)
    throw new RecordUnreadable(new Error("a token digest has the wrong length"));
  return Buffer.from(digest.slice(2, 2 + NONCE_CHARACTERS), "base64url");
}

/**
 * Returns the error for a key that is not in the ring.
 *
 * @param outcome the outcome of the change. Undefined if the call only reads
 */
export function keyMissing(keyId: string, outcome?: ChangeOutcome): RecordUnreadable {
  const cause = new Error(`a record is encrypted with the key ${JSON.stringify(keyId)}, which TOKEN_KEYS lacks`);
  return new RecordUnreadable(cause, outcome);
}
