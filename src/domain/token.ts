import { hash, randomBytes, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import { ENVIRONMENT_NUMBERS } from "./environment.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** What user group tokens of ours begin with. */
export const USER_GROUP_PREFIX = "ugt_";
const API_PREFIX = "ugk_";
/** How many base62 characters a user group token has behind its prefix and before its checksum: about 190 random bits. */
const BODY_LENGTH = 32;
/** An API token has its environment's number there, and about 178 random bits. */
const NUMBER_LENGTH = 4;
const API_BODY_LENGTH = NUMBER_LENGTH + 30;
const CHECKSUM_LENGTH = 6;
/** Eight base62 characters are a number below 2^48. */
const PACKED_CHARACTERS = 8;
const PACKED_BYTES = 6;
/** What two base62 characters can number, and what four can. */
const TWO = 62 ** 2;
const FOUR = 62 ** 4;
const SHAPE = /^ug(?:t_[0-9A-Za-z]{38}|k_[0-9A-Za-z]{40})$/;

/** Every two base62 characters, in the order of what they number. */
const PAIRS = Array.from({ length: TWO }, (_, i) => BASE62.charAt(Math.floor(i / 62)) + BASE62.charAt(i % 62));

/** Generates a user group token: `ugt_`, random characters and six of CRC-32 over them. */
export function newUserGroupToken(): string {
  const body = randomBase62(BODY_LENGTH);
  return USER_GROUP_PREFIX + body + checksum(body);
}

/**
 * Generates an API token: `ugk_`, the number of its environment, random characters and six of CRC-32 over all these.
 *
 * @param number of its environment; default: any, for a token of the settings
 */
export function newApiToken(number = randomInt(1, ENVIRONMENT_NUMBERS)): string {
  const body = fourOf(number) + randomBase62(API_BODY_LENGTH - NUMBER_LENGTH);
  return API_PREFIX + body + checksum(body);
}

/** Whether a text begins like a token of this service, but is no user group token: it was cut or mistyped, or is an API token. */
export function isMalformedUserGroupToken(token: string): boolean {
  if (token.startsWith(API_PREFIX)) return true;
  return token.startsWith(USER_GROUP_PREFIX) && !isIntactToken(token);
}

/** The number of the environment that issued an API token; undefined if the text is not one, as a whole and not mistyped. */
export function environmentNumberOf(token: string): number | undefined {
  if (!token.startsWith(API_PREFIX) || !isIntactToken(token)) return undefined;
  return fromBase62(token, API_PREFIX.length, NUMBER_LENGTH) || undefined;
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

/** Whether the text is a token as this service generates them, of either kind, whole and not mistyped. */
export function isIntactToken(token: string): boolean {
  if (!SHAPE.test(token)) return false;
  const end = token.length - CHECKSUM_LENGTH;
  return token.endsWith(checksum(token.slice(USER_GROUP_PREFIX.length, end)));
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
