import { describe, expect, it } from "vitest";
import { RecordUnreadable } from "../domain/errors.ts";
import { newApiToken, newUserGroupToken } from "../domain/token.ts";
import { deriveKey, digest, type EncryptedToken, type RingKey, TokenCipher, tokenDigest } from "./encryption.ts";

const OLD = { id: "old", secret: new Uint8Array(32).fill(1) };
const NEW = { id: "new", secret: new Uint8Array(32).fill(2) };
const HOME = { number: 7 };

describe("digests", () => {
  it("a digest is SHA-256 in base64url", () => {
    // FIPS 180-2, B.1
    expect(digest("abc")).toBe("ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
    expect(digest("é")).not.toBe(digest("e"));
  });
});

describe("derived keys", () => {
  it("a derived key is HKDF of SHA-256", () => {
    // RFC 5869, A.3: no salt, no info.
    const okm = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d";
    expect(deriveKey(new Uint8Array(22).fill(0x0b), "").toString("hex")).toBe(okm);
  });

  it("a derived key differs for each secret and each purpose", () => {
    const keys = [OLD, NEW].flatMap(({ secret }) => ["a", "b"].map((purpose) => deriveKey(secret, purpose)));
    expect(new Set(keys.map((key) => key.toString("hex"))).size).toBe(4);
  });
});

describe("a token's digest", () => {
  it("has the first byte of SHA-256 in hexadecimal, and the next 15 bytes in base64url", () => {
    // FIPS 180-2, B.1: ba7816bf 8f01cfea 414140de 5dae2223
    expect(tokenDigest("abc")).toBe(`ba${Buffer.from("7816bf8f01cfea414140de5dae2223", "hex").toString("base64url")}`);
  });
});

const encrypt = (cipher: TokenCipher, token: string, environment = HOME) =>
  cipher.encrypt(environment, token, tokenDigest(token));
const decrypt = (cipher: TokenCipher, encrypted: EncryptedToken, token: string, environment = HOME) =>
  cipher.decrypt(environment, encrypted, tokenDigest(token));

describe("the cipher", () => {
  const cipher = new TokenCipher([NEW, OLD]);
  const ours = Array.from({ length: 200 }, () => newUserGroupToken());
  const token = ours[0] as string;
  const foreign = [
    "imported-0001",
    "ugt_short",
    `${token.slice(0, -1)}~`,
    newApiToken(),
    "",
    "é👪\0",
    "x".repeat(10_000),
  ];

  it.each([...ours.slice(0, 3), ...foreign])("the cipher decrypts a token that it encrypted: %.20j", (text) => {
    expect(decrypt(cipher, encrypt(cipher, text), text)).toBe(text);
    // Only the number of the environment matters, not the identity of the object.
    expect(decrypt(cipher, encrypt(cipher, text), text, { ...HOME })).toBe(text);
  });

  it("packs tokens in the format of this service into fewer bytes, and packs no other tokens", () => {
    for (const each of ours) expect(encrypt(cipher, each)).toMatchObject({ isPacked: true });
    for (const each of ours) expect(encrypt(cipher, each).text).toMatch(/^[\w-]{54}$/);
    for (const each of foreign) expect(encrypt(cipher, each).isPacked).toBe(false);
  });

  it("returns the key id but no part of the token, and encrypts different tokens to texts with different beginnings", () => {
    const texts = ours.map((each) => encrypt(cipher, each).text);
    expect(new Set(texts.map((text) => text.slice(0, 12))).size).toBe(ours.length);
    const { keyId, text } = encrypt(cipher, "ugt_secret");
    expect(keyId).toBe("new");
    expect(Buffer.from(text, "base64url").includes("secret")).toBe(false);
    // Two environments encrypt a token with the same nonce, but with different keys.
    expect(encrypt(cipher, token)).toEqual(encrypt(cipher, token));
    expect(encrypt(cipher, token, { number: 8 }).text).not.toBe(encrypt(cipher, token).text);
  });

  it("binds a token to its digest and to its environment", () => {
    const encrypted = encrypt(cipher, token);
    const digest = tokenDigest(token);
    const last = digest.endsWith("A") ? "B" : "A";
    for (const other of ["", digest.slice(0, -1), `${digest.slice(0, -1)}${last}`, `${digest} `, tokenDigest("t")]) {
      expect(() => cipher.decrypt(HOME, encrypted, other), other).toThrow(RecordUnreadable);
    }
    expect(() => decrypt(cipher, encrypted, token, { number: 8 })).toThrow(RecordUnreadable);
  });

  it.each([token, "imported-0001"])(
    "rejects an encrypted token (%.4s) with a changed byte or a missing end",
    (each) => {
      const encrypted = encrypt(cipher, each);
      const bytes = Buffer.from(encrypted.text, "base64url");
      const refuse = (text: string, what: string) =>
        expect(() => decrypt(cipher, { ...encrypted, text }, each), what).toThrow(RecordUnreadable);
      for (let i = 0; i < bytes.length; i++) {
        const changed = Buffer.from(bytes);
        changed[i] = (changed[i] ?? 0) ^ 1;
        refuse(changed.toString("base64url"), `byte ${i}`);
        refuse(bytes.subarray(0, i).toString("base64url"), `cut to ${i}`);
      }
    },
  );

  it.each(["", "other", "__proto__"])("rejects an encrypted token with the unknown key id %j", (keyId) =>
    expect(() => decrypt(cipher, { ...encrypt(cipher, token), keyId }, token)).toThrow(RecordUnreadable),
  );
});

describe("the key ring", () => {
  const token = newUserGroupToken();
  const before = encrypt(new TokenCipher([OLD]), token);
  const read = (ring: readonly RingKey[]) => decrypt(new TokenCipher(ring), before, token);

  it("decrypts with each key, and encrypts with the first key", () => {
    expect(read([NEW, OLD])).toBe(token);
    expect(encrypt(new TokenCipher([NEW, OLD]), token).keyId).toBe("new");
  });

  it("puts the id of a missing key into the error for the log", () => {
    const thrown = () => {
      try {
        return read([NEW]);
      } catch (error) {
        return error;
      }
    };
    expect(String((thrown() as Error).cause)).toContain(`with the key "old", which TOKEN_KEYS lacks`);
  });

  it("rejects a token if its key is missing, has another secret, or has another id", () => {
    for (const ring of [[NEW], [{ ...NEW, id: "old" }], [{ ...OLD, id: "renamed" }]]) {
      expect(() => read(ring)).toThrow(RecordUnreadable);
    }
  });

  it("the key ring must not be empty", () => expect(() => new TokenCipher([])).toThrow(TypeError));
});
