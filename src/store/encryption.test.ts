import { describe, expect, it } from "vitest";
import type { EnvironmentName } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import { deriveKey, digest, TokenCipher } from "./encryption.ts";

const OLD = { id: "old", secret: new Uint8Array(32).fill(1) };
const NEW = { id: "new", secret: new Uint8Array(32).fill(2) };
const HOME: EnvironmentName = { name: "e", tag: undefined };

describe("a digest", () => {
  it("is SHA-256 in base64url", () => {
    // FIPS 180-2, B.1
    expect(digest("abc")).toBe("ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
    expect(digest("é")).not.toBe(digest("e"));
  });
});

describe("a derived key", () => {
  it("is HKDF of SHA-256", () => {
    // RFC 5869, A.3: no salt, no info.
    const okm = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d";
    expect(deriveKey(new Uint8Array(22).fill(0x0b), "").toString("hex")).toBe(okm);
  });

  it("is another for each secret and each purpose", () => {
    const keys = [OLD, NEW].flatMap(({ secret }) => ["a", "b"].map((purpose) => deriveKey(secret, purpose)));
    expect(new Set(keys.map((key) => key.toString("hex"))).size).toBe(4);
  });
});

describe("the cipher", () => {
  const cipher = new TokenCipher([NEW, OLD]);

  it.each(["ugt_secret", "", "é👪\0", "x".repeat(10_000)])("gives back what it encrypted: %.20j", (text) => {
    expect(cipher.decrypt(HOME, cipher.encrypt(HOME, text, "d"), "d")).toBe(text);
    // By what the environment is, not by the object that says so.
    expect(cipher.decrypt({ ...HOME }, cipher.encrypt(HOME, text, "d"), "d")).toBe(text);
  });

  it("names its key, shows nothing of the text and never repeats itself", () => {
    const encrypted = Array.from({ length: 200 }, () => cipher.encrypt(HOME, "ugt_secret", "d"));
    expect(new Set(encrypted.map((text) => text.slice(0, 20))).size).toBe(200);
    for (const text of encrypted) {
      expect(text).toMatch(/^new\.[A-Za-z0-9_-]+$/);
      expect(Buffer.from(text.slice(4), "base64url").includes("secret")).toBe(false);
    }
  });

  it("binds a token to its digest and to its environment", () => {
    const encrypted = cipher.encrypt(HOME, "t", "digest");
    for (const other of ["", "digesT", "digest ", "other"]) {
      expect(() => cipher.decrypt(HOME, encrypted, other), other).toThrow(RecordUnreadable);
    }
    for (const environment of [
      { ...HOME, name: "f" },
      { ...HOME, tag: "Testing" as const },
    ]) {
      expect(() => cipher.decrypt(environment, encrypted, "digest")).toThrow(RecordUnreadable);
    }
  });

  it("refuses a text with any byte changed, and any that is cut", () => {
    const bytes = Buffer.from(cipher.encrypt(HOME, "ugt_secret", "d").slice(4), "base64url");
    const refuse = (text: string, what: string) =>
      expect(() => cipher.decrypt(HOME, text, "d"), what).toThrow(RecordUnreadable);
    for (let i = 0; i < bytes.length; i++) {
      const changed = Buffer.from(bytes);
      changed[i] = (changed[i] ?? 0) ^ 1;
      refuse(`new.${changed.toString("base64url")}`, `byte ${i}`);
      refuse(`new.${bytes.subarray(0, i).toString("base64url")}`, `cut to ${i}`);
    }
  });

  it.each(["", ".", "new", "new.", ".AAAA", "ugt_plain", "other.AAAA", "__proto__.AAAA"])("refuses %j", (text) =>
    expect(() => cipher.decrypt(HOME, text, "d")).toThrow(RecordUnreadable),
  );
});

describe("the key ring", () => {
  const decrypt = (ring: ConstructorParameters<typeof TokenCipher>[0], text: string) =>
    new TokenCipher(ring).decrypt(HOME, text, "d");

  it("decrypts under every key and encrypts under the first", () => {
    const before = new TokenCipher([OLD]).encrypt(HOME, "t", "d");
    expect(decrypt([NEW, OLD], before)).toBe("t");
    expect(new TokenCipher([NEW, OLD]).encrypt(HOME, "t", "d")).toMatch(/^new\./);
  });

  it("refuses what is encrypted under a key that it does not hold, or holds under another name", () => {
    const before = new TokenCipher([OLD]).encrypt(HOME, "t", "d");
    expect(() => decrypt([NEW], before)).toThrow(RecordUnreadable);
    expect(() => decrypt([{ ...NEW, id: "old" }], before)).toThrow(RecordUnreadable);
    expect(() => decrypt([{ ...OLD, id: "renamed" }], before)).toThrow(RecordUnreadable);
  });

  it("is never empty", () => expect(() => new TokenCipher([])).toThrow(TypeError));
});
