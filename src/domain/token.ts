import { hash, randomBytes, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import { ENVIRONMENT_NUMBERS } from "./environment.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
export const USER_GROUP_PREFIX = "ugt_";
const API_PREFIX = "ugk_";
/** The length of the random part of a user group token, in base62 characters. This part has about 190 random bits. */
const BODY_LENGTH = 32;
/**
 * The length of the environment number in an API token, in base62 characters. The body of the API token begins with
 * this number. The other 30 characters are random (about 178 bits).
 */
const NUMBER_LENGTH = 4;
const API_BODY_LENGTH = NUMBER_LENGTH + 30;
const CHECKSUM_LENGTH = 6;
/** Eight base62 characters encode a number below 2^48, which fits into six bytes. */
const PACKED_CHARACTERS = 8;
const PACKED_BYTES = 6;
const TWO = 62 ** 2;
const FOUR = 62 ** 4;
const FORMAT = /^ug(?:t_[0-9A-Za-z]{38}|k_[0-9A-Za-z]{40})$/;

/** All pairs of base62 characters. The index of a pair is the number that the pair encodes. */
const PAIRS = Array.from({ length: TWO }, (_, i) => BASE62.charAt(Math.floor(i / 62)) + BASE62.charAt(i % 62));

/** Generates a user group token: `ugt_`, random characters, and their CRC-32 in six characters. */
export function newUserGroupToken(): string {
  const body = randomBase62(BODY_LENGTH);
  return USER_GROUP_PREFIX + body + checksum(body);
}

/**
 * Generates an API token: `ugk_`, the number of its environment, random characters, and a checksum of six characters.
 *
 * @param number the number of the environment. Default: a random number, for a token in `API_TOKENS`
 */
export function newApiToken(number = randomInt(1, ENVIRONMENT_NUMBERS)): string {
  const body = fourOf(number) + randomBase62(API_BODY_LENGTH - NUMBER_LENGTH);
  return API_PREFIX + body + checksum(body);
}

/** Returns whether a text begins like an API token, or is an incomplete or mistyped user group token. */
export function isMalformedUserGroupToken(token: string): boolean {
  if (token.startsWith(API_PREFIX)) return true;
  return token.startsWith(USER_GROUP_PREFIX) && !isIntactToken(token);
}

/** Returns the number of the environment of an API token. Returns undefined if the text is not a complete API token. */
export function environmentNumberOf(token: string): number | undefined {
  if (!token.startsWith(API_PREFIX) || !isIntactToken(token)) return undefined;
  return fromBase62(token, API_PREFIX.length, NUMBER_LENGTH) || undefined;
}

export const PACKED_TOKEN_BYTES = (BODY_LENGTH / PACKED_CHARACTERS) * PACKED_BYTES;

/** Packs the random part of a user group token of this service into 24 bytes. Returns undefined for any other text. */
export function packToken(token: string): Buffer | undefined {
  if (!token.startsWith(USER_GROUP_PREFIX) || !isIntactToken(token)) return undefined;
  const packed = Buffer.allocUnsafe(PACKED_TOKEN_BYTES);
  for (let at = 0; at < PACKED_TOKEN_BYTES; at += PACKED_BYTES) {
    const start = USER_GROUP_PREFIX.length + (at / PACKED_BYTES) * PACKED_CHARACTERS;
    packed.writeUIntBE(fromBase62(token, start, PACKED_CHARACTERS), at, PACKED_BYTES);
  }
  return packed;
}

/** Returns the user group token from a result of `packToken`. */
export function unpackToken(packed: Buffer): string {
  let body = "";
  for (let at = 0; at < PACKED_TOKEN_BYTES; at += PACKED_BYTES) {
    const number = packed.readUIntBE(at, PACKED_BYTES);
    const high = Math.floor(number / FOUR);
    body += fourOf(high) + fourOf(number - high * FOUR);
  }
  return USER_GROUP_PREFIX + body + checksum(body);
}

/** Returns whether a text is a complete user group token or API token of this service, with a valid checksum. */
export function isIntactToken(token: string): boolean {
  if (!FORMAT.test(token)) return false;
  const end = token.length - CHECKSUM_LENGTH;
  return token.endsWith(checksum(token.slice(USER_GROUP_PREFIX.length, end)));
}

function checksum(body: string): string {
  const crc = crc32(body);
  const high = Math.floor(crc / FOUR);
  return PAIRS[high] + fourOf(crc - high * FOUR);
}

/** Encodes a number below 62^4 in four base62 characters. */
function fourOf(number: number): string {
  const high = Math.floor(number / TWO);
  return (PAIRS[high] as string) + (PAIRS[number - high * TWO] as string);
}

/** Generates random base62 characters. Each character has about 5.95 random bits. */
export function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      // Skip the bytes 248 to 255, because 248 is the largest multiple of 62 below 256. These bytes would make the
      // first eight characters more frequent than the others.
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

/** The length of an id, in characters. An id has about 95 random bits. */
const ID_LENGTH = 16;

export function newResourceId(): string {
  return randomBase62(ID_LENGTH);
}

/** Returns whether a text has the form of the id of an API token or a webhook. */
export function isResourceId(text: string): boolean {
  return /^[0-9A-Za-z]{16}$/.test(text);
}

function fromBase62(text: string, start: number, length: number): number {
  let value = 0;
  for (let i = start; i < start + length; i++) value = value * 62 + BASE62.indexOf(text.charAt(i));
  return value;
}

/** Returns the SHA-256 of an API token in base64url. The service stores API tokens only in this form. */
export function apiTokenDigest(token: string): string {
  return hash("sha256", token, "base64url");
}
