import { describe, expect, it } from "vitest";
import { RecordUnreadable } from "../domain/errors.ts";
import { digest, TokenCipher } from "./encryption.ts";

const OLD = { id: "old", secret: new Uint8Array(32).fill(1) };
const NEW = { id: "new", secret: new Uint8Array(32).fill(2) };

describe("a digest", () => {
  it("is SHA-256 in base64url", () => {
    // FIPS 180-2, B.1
    expect(digest("abc")).toBe("ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
    expect(digest("é")).not.toBe(digest("e"));
  });
});

describe("the cipher", () => {
  const cipher = new TokenCipher([NEW, OLD]);

  it.each(["ugt_secret", "", "é👪\0", "x".repeat(10_000)])("gives back what it encrypted: %.20j", (text) => {
    expect(cipher.decrypt(cipher.encrypt(text, "b"), "b")).toBe(text);
  });

  it("names its key, shows nothing of the text and never repeats itself", () => {
    const encrypted = Array.from({ length: 200 }, () => cipher.encrypt("ugt_secret", "b"));
    expect(new Set(encrypted.map((text) => text.slice(0, 20))).size).toBe(200);
    for (const text of encrypted) {
      expect(text).toMatch(/^new\.[A-Za-z0-9_-]+$/);
      expect(Buffer.from(text.slice(4), "base64url").includes("secret")).toBe(false);
    }
  });

  it("binds a text to what it belongs to", () => {
    const encrypted = cipher.encrypt("t", "e/\0id\0a");
    for (const other of ["", "e/\0id\0b", "e/\0after\0a", "e/Testing\0id\0a", "e/\0id\0a "]) {
      expect(() => cipher.decrypt(encrypted, other), other).toThrow(RecordUnreadable);
    }
  });

  it("refuses a text with any byte changed, and any that is cut", () => {
    const bytes = Buffer.from(cipher.encrypt("ugt_secret", "b").slice(4), "base64url");
    for (let i = 0; i < bytes.length; i++) {
      const changed = Buffer.from(bytes);
      changed[i] = (changed[i] ?? 0) ^ 1;
      expect(() => cipher.decrypt(`new.${changed.toString("base64url")}`, "b"), `byte ${i}`).toThrow(RecordUnreadable);
      const cut = bytes.subarray(0, i).toString("base64url");
      expect(() => cipher.decrypt(`new.${cut}`, "b"), `cut to ${i}`).toThrow(RecordUnreadable);
    }
  });

  it.each(["", ".", "new", "new.", ".AAAA", "ugt_plain", "other.AAAA", "__proto__.AAAA"])("refuses %j", (text) =>
    expect(() => cipher.decrypt(text, "b")).toThrow(RecordUnreadable),
  );
});

describe("the key ring", () => {
  it("decrypts under every key and encrypts under the first", () => {
    const before = new TokenCipher([OLD]).encrypt("t", "b");
    const ring = new TokenCipher([NEW, OLD]);
    expect(ring.decrypt(before, "b")).toBe("t");
    expect(ring.encrypt("t", "b")).toMatch(/^new\./);
  });

  it("refuses what is encrypted under a key that it does not hold, or holds under another name", () => {
    const before = new TokenCipher([OLD]).encrypt("t", "b");
    expect(() => new TokenCipher([NEW]).decrypt(before, "b")).toThrow(RecordUnreadable);
    expect(() => new TokenCipher([{ ...NEW, id: "old" }]).decrypt(before, "b")).toThrow(RecordUnreadable);
    expect(() => new TokenCipher([{ ...OLD, id: "renamed" }]).decrypt(before, "b")).toThrow(RecordUnreadable);
  });

  it("is never empty", () => expect(() => new TokenCipher([])).toThrow(TypeError));
});
