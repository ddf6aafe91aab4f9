import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** What user group tokens of ours begin with. */
export const USER_GROUP_PREFIX = "ugt_";
const API_PREFIX = "ugk_";
const BODY_LENGTH = 32;
const TOKEN_LENGTH = 4 + BODY_LENGTH + 6;
/** Eight base62 characters are a number below 2^48. */
const PACKED_CHARACTERS = 8;
const PACKED_BYTES = 6;
/** What two base62 characters can number, and what four can. */
const TWO = 62 ** 2;
const FOUR = 62 ** 4;
const SHAPE = /^ug[tk]_[0-9A-Za-z]{38}$/;

/** Every two base62 characters, in the order of what they number: the labels of the partitions in tokens and keys. */
export const PAIRS = Array.from({ length: TWO }, (_, i) => BASE62.charAt(Math.floor(i / 62)) + BASE62.charAt(i % 62));

/**
 * What the text of a user group token reveals.
 * - `ours`: well-formed; `partition` holds its index entry.
 * - `malformed`: begins like one of ours, but is truncated, mistyped or an API token.
 * - `foreign`: of another form, as an imported token may be.
 */
type TokenShape =
  | { readonly kind: "ours"; readonly partition: number }
  | { readonly kind: "malformed" }
  | { readonly kind: "foreign" };

/**
 * Generates a user group token: `ugt_`, two characters of partition, 30 random characters (about 178 bits) and six of
 * CRC-32 over the 32 before them.
 *
 * @param partition from 0 to 3,843
 */
export function newUserGroupToken(partition: number): string {
  const body = PAIRS[partition] + randomBase62(BODY_LENGTH - 2);
  return USER_GROUP_PREFIX + body + checksum(body);
}

/** Generates an API token: `ugk_`, 32 random characters (about 190 bits) and six of CRC-32 over them. */
export function newApiToken(): string {
  const body = randomBase62(BODY_LENGTH);
  return API_PREFIX + body + checksum(body);
}

/** Classifies a text that is presented as a user group token. */
export function userGroupTokenShape(token: string): TokenShape {
  if (token.startsWith(API_PREFIX)) return { kind: "malformed" };
  if (!token.startsWith(USER_GROUP_PREFIX)) return { kind: "foreign" };
  if (!isIntactToken(token)) return { kind: "malformed" };
  return { kind: "ours", partition: fromBase62(token, 4, 2) };
}

/** How many bytes `packToken` makes of a token. */
export const PACKED_TOKEN_BYTES = (BODY_LENGTH / PACKED_CHARACTERS) * PACKED_BYTES;

/** What a user group token of ours does not share with all others, in 24 bytes; undefined for any other token. */
export function packToken(token: string): Buffer | undefined {
  if (!token.startsWith(USER_GROUP_PREFIX) || !isIntactToken(token)) return undefined;
  const packed = Buffer.allocUnsafe(PACKED_TOKEN_BYTES);
  for (let at = 0; at < PACKED_TOKEN_BYTES; at += PACKED_BYTES) {
    const start = USER_GROUP_PREFIX.length + (at / PACKED_BYTES) * PACKED_CHARACTERS;
    packed.writeUIntBE(fromBase62(token, start, PACKED_CHARACTERS), at, PACKED_BYTES);
  }
  return packed;
}

/** The token that `packToken` made the bytes of. */
export function unpackToken(packed: Buffer): string {
  let body = "";
  for (let at = 0; at < PACKED_TOKEN_BYTES; at += PACKED_BYTES) {
    const number = packed.readUIntBE(at, PACKED_BYTES);
    const high = Math.floor(number / FOUR);
    body += fourOf(high) + fourOf(number - high * FOUR);
  }
  return USER_GROUP_PREFIX + body + checksum(body);
}

/** Whether the text is an API token as this service generates them, whole and not mistyped. */
export function isIntactApiToken(token: string): boolean {
  return token.startsWith(API_PREFIX) && isIntactToken(token);
}

/** Whether the text is a token as this service generates them, of either kind, whole and not mistyped. */
export function isIntactToken(token: string): boolean {
  if (token.length !== TOKEN_LENGTH || !SHAPE.test(token)) return false;
  const end = 4 + BODY_LENGTH;
  return token.endsWith(checksum(token.slice(4, end)));
}

function checksum(body: string): string {
  const crc = crc32(body);
  const high = Math.floor(crc / FOUR);
  return PAIRS[high] + fourOf(crc - high * FOUR);
}

/** Four base62 characters. @param number below 62^4 */
function fourOf(number: number): string {
  const high = Math.floor(number / TWO);
  return (PAIRS[high] as string) + (PAIRS[number - high * TWO] as string);
}

/** Generates a text of random base62 characters, each of about 5.95 bits. */
export function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      // 248 is the largest multiple of 62 in a byte. Larger values would make some characters more likely.
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

function fromBase62(text: string, start: number, length: number): number {
  let value = 0;
  for (let i = start; i < start + length; i++) value = value * 62 + BASE62.indexOf(text.charAt(i));
  return value;
}

/** SHA-256 of an API token in base64url: all that is kept of it. */
export function apiTokenDigest(token: string): string {
  return hash("sha256", token, "base64url");
}
