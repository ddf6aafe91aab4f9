import { createCipheriv, createDecipheriv, createSecretKey, hash, type KeyObject, randomBytes } from "node:crypto";
import { RecordUnreadable } from "../domain/errors.ts";

const ALGORITHM = "aes-256-gcm";
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

/** AES-256-GCM under a ring of keys: the first encrypts, all decrypt. */
export class TokenCipher {
  readonly #keys = new Map<string, KeyObject>();
  readonly #current: { readonly id: string; readonly key: KeyObject };

  /** @param ring at least one key */
  constructor(ring: readonly RingKey[]) {
    for (const { id, secret } of ring) this.#keys.set(id, createSecretKey(secret));
    const first = ring[0];
    const key = first && this.#keys.get(first.id);
    if (!first || !key) throw new TypeError("a key ring needs a key");
    this.#current = { id: first.id, key };
  }

  /**
   * Encrypts a credential as `KEY_ID.BASE64URL(iv, text, tag)`.
   *
   * @param binding what it belongs to: decryption fails with any other
   */
  encrypt(credential: string, binding: string): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#current.key, iv);
    cipher.setAAD(Buffer.from(binding));
    const text = Buffer.concat([iv, cipher.update(credential, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return `${this.#current.id}.${text.toString("base64url")}`;
  }

  /** @throws RecordUnreadable when the key is not in the ring, or the text or the binding is not the encrypted one */
  decrypt(encrypted: string, binding: string): string {
    const dot = encrypted.indexOf(".");
    const key = this.#keys.get(encrypted.slice(0, dot));
    if (!key) throw new RecordUnreadable(new Error("a token is encrypted under a key that TOKEN_KEYS does not hold"));
    const bytes = Buffer.from(encrypted.slice(dot + 1), "base64url");
    const end = bytes.length - TAG_BYTES;
    if (end < IV_BYTES) throw new RecordUnreadable(new Error("an encrypted token is cut short"));
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(binding));
    decipher.setAuthTag(bytes.subarray(end));
    try {
      const credential = decipher.update(bytes.subarray(IV_BYTES, end));
      // Throws when the tag does not match; the text itself is whole by now.
      decipher.final();
      return credential.toString();
    } catch (cause) {
      throw new RecordUnreadable(cause);
    }
  }
}
