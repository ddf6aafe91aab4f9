import { crc32 } from "crc";
import { describe, expect, it } from "vitest";
import { ENVIRONMENT_NUMBERS } from "./environment.ts";
import {
  environmentNumberOf,
  isMalformedUserGroupToken,
  newApiToken,
  newUserGroupToken,
  PACKED_TOKEN_BYTES,
  packToken,
  USER_GROUP_PREFIX,
  unpackToken,
} from "./token.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Computes the documented checksum independently of the code under test. */
function checksum(body: string): string {
  let rest = BigInt(crc32(body));
  let text = "";
  for (; rest > 0n; rest /= 62n) text = BASE62.charAt(Number(rest % 62n)) + text;
  return text.padStart(6, "0");
}

describe("user group tokens", () => {
  it("a user group token has its own prefix, 32 random characters and their checksum", () => {
    const token = newUserGroupToken();
    expect(token).toMatch(/^ugt_[0-9A-Za-z]{38}$/);
    expect(token.slice(36)).toBe(checksum(token.slice(4, 36)));
    expect(isMalformedUserGroupToken(token)).toBe(false);
  });

  it("each user group token is different, and can contain each of the 62 letters and digits", () => {
    const bodies = Array.from({ length: 2000 }, () => newUserGroupToken().slice(4, 36));
    expect(new Set(bodies).size).toBe(2000);
    expect([...new Set(bodies.join(""))].sort().join("")).toBe(BASE62);
  });

  it("a user group token is malformed if any character is changed, lost, repeated or swapped", () => {
    const token = newUserGroupToken();
    for (let i = 4; i < token.length; i++) {
      const other = token.charAt(i) === "x" ? "y" : "x";
      const variants = [
        token.slice(0, i) + other + token.slice(i + 1),
        token.slice(0, i) + token.slice(i + 1),
        token.slice(0, i) + token.charAt(i) + token.slice(i),
      ];
      const swapped = token.slice(0, i) + token.charAt(i + 1) + token.charAt(i) + token.slice(i + 2);
      if (swapped !== token && i + 1 < token.length) variants.push(swapped);
      for (const variant of variants) expect(isMalformedUserGroupToken(variant), variant).toBe(true);
    }
  });

  it.each(["ugt_", "ugt_short", `${newUserGroupToken()}\n`, ` ${newUserGroupToken()}`.slice(1, -1), newApiToken()])(
    "a user group token is malformed if the text is %j",
    (text) => expect(isMalformedUserGroupToken(text)).toBe(true),
  );

  it.each(["", "abc", "UGT_x", ` ${newUserGroupToken()}`, "0123-imported-token"])(
    "a text that begins with neither ugt_ nor ugk_ is not a malformed user group token: %j",
    (text) => expect(isMalformedUserGroupToken(text)).toBe(false),
  );

  it("a user group token has a prefix that an API token does not have", () => {
    expect(newUserGroupToken().startsWith(USER_GROUP_PREFIX)).toBe(true);
    expect(newApiToken().startsWith(USER_GROUP_PREFIX)).toBe(false);
  });
});

describe("an API token", () => {
  it.each([1, 61, 62, 3844, ENVIRONMENT_NUMBERS - 1])(
    "contains the environment number %i, random characters and a checksum",
    (number) => {
      const token = newApiToken(number);
      expect(token).toMatch(/^ugk_[0-9A-Za-z]{40}$/);
      expect(token.slice(38)).toBe(checksum(token.slice(4, 38)));
      expect(environmentNumberOf(token)).toBe(number);
      expect(new Set(Array.from({ length: 500 }, () => newApiToken(number))).size).toBe(500);
    },
  );

  it.each([newApiToken(0), newApiToken(1).slice(0, -1), `${newApiToken(1)}x`, newUserGroupToken(), "", "ugk_"])(
    "has no environment number if the text is %j",
    (text) => expect(environmentNumberOf(text)).toBeUndefined(),
  );
});

describe("packed tokens", () => {
  const intact = (body: string) => `ugt_${body}${checksum(body)}`;

  it.each([
    ...["0", "z", "Z", "A"].map((character) => intact(character.repeat(32))),
    intact("0123456789ABCDEFGHIJKLMNOPQRSTUV"),
    ...Array.from({ length: 20 }, newUserGroupToken),
  ])("the packed token of %s has 24 bytes, and unpackToken returns the original token", (token) => {
    const packed = packToken(token);
    expect(packed).toHaveLength(PACKED_TOKEN_BYTES);
    expect(PACKED_TOKEN_BYTES).toBe(24);
    expect(unpackToken(packed as Buffer)).toBe(token);
  });

  it.each([
    "",
    "ugt_",
    newApiToken(),
    "imported-0001",
    `${intact("0".repeat(32)).slice(0, -1)}~`,
    newUserGroupToken().slice(0, -1),
  ])("packToken returns undefined for %s", (token) => expect(packToken(token)).toBeUndefined());
});
