import { randomBytes } from "node:crypto";

/** The maximum length of a session: it has to fit into headers, of which servers take 8 KiB at the least. */
export const MAX_SESSION_LENGTH = 8192;

/** The greatest difference between the clocks of those who make and those who check sessions, in seconds. */
export const CLOCK_TOLERANCE_S = 5;

/** The longest that any session lasts, in seconds. */
export const MAX_LIFE_S = 3600;

/** The claims that are signed (RFC 7519, and some of this service's own). Times are in seconds since 1970. */
export interface SessionClaims {
  /** The environment. */
  readonly iss: string;
  readonly aud: string;
  /** The id of the user group. */
  readonly sub: string;
  /** The internal id of the user group. */
  readonly tid: number;
  /** The generation of the group's sessions to which this one belongs. */
  readonly gen: number;
  readonly jti: string;
  readonly iat: number;
  readonly exp: number;
  /** The person within the group. */
  readonly vid?: string;
  /** The origin of the page. */
  readonly origin?: string;
  /** Properties of the group. */
  readonly properties?: object;
  /** What the maker of the session added. */
  readonly ext?: object;
}

/** Why a session is refused. */
export type SessionRefusal = "malformed" | "other-environment" | "unknown-key" | "signature" | "expired" | "too-early";

/** A text that looks like a session is refused. */
export class SessionRefused extends Error {
  override readonly name = "SessionRefused";
  readonly refusal: SessionRefusal;
  /** The id of the key, if it is unknown. */
  readonly kid: string | undefined;
  constructor(refusal: SessionRefusal, kid?: string) {
    super(`the session is refused: ${refusal}`);
    this.refusal = refusal;
    this.kid = kid;
  }
}

/** The one algorithm that signs sessions (RFC 7518, 3.4). */
export const ALGORITHM = "ES256";
/** The `typ` that the header of a session has. */
export const TYPE = "viewer+jwt";

/** How the header of every session begins, and no other token does: `{"` in base64url. */
const PREFIX = "eyJ";

/** The header has three short members. */
const MAX_HEADER_LENGTH = 256;

/**
 * 64 bytes in base64url, as ES256 makes them. The unused bits of the last character are zero, so that no session has
 * two texts.
 */
const SIGNATURE = /^[\w-]{85}[AQgw]$/;

const BASE64URL = /^[\w-]+$/;
const KEY_ID = /^[\w-]{22}$/;

/** A new id of a key: 128 random bits. */
export function newKeyId(): string {
  return randomBytes(16).toString("base64url");
}

/** The header of the session that was last seen, and the dot behind it. Sessions by one key have the same. */
let lastHeader = PREFIX;

/** Whether a text is treated as a session, valid or not, and as nothing else: its header says so. */
export function isSession(text: string): boolean {
  if (!text.startsWith(PREFIX)) return false;
  if (lastHeader !== PREFIX && text.startsWith(lastHeader)) return true;
  const head = text.slice(0, MAX_HEADER_LENGTH).split(".", 1)[0] as string;
  const isOne = decoded(head)?.["typ"] === TYPE;
  if (isOne && text[head.length] === ".") lastHeader = `${head}.`;
  return isOne;
}

/**
 * The id of the key that signed a session, from its header. The header may have nothing but that, the type and the one
 * algorithm: no key, no address of keys, and no extension that would have to be understood (RFC 8725).
 *
 * @throws SessionRefused
 */
export function keyIdOf(session: string): string {
  const parts = session.length <= MAX_SESSION_LENGTH ? session.split(".", 4) : [];
  const [head = "", payload = "", signature = ""] = parts;
  const isWhole =
    parts.length === 3 && head.length <= MAX_HEADER_LENGTH && BASE64URL.test(payload) && SIGNATURE.test(signature);
  const header = isWhole ? decoded(head) : undefined;
  if (!header || Object.keys(header).length !== 3) throw new SessionRefused("malformed");
  const { alg, typ, kid } = header;
  if (alg !== ALGORITHM || typ !== TYPE || typeof kid !== "string" || !KEY_ID.test(kid))
    throw new SessionRefused("malformed");
  return kid;
}

/** The issuer that a session claims, before its signature is checked. @throws SessionRefused */
export function claimedIssuer(session: string): unknown {
  const payload = decoded(session.split(".", 2)[1] as string);
  if (!payload) throw new SessionRefused("malformed");
  return payload["iss"];
}

/**
 * The claims of a session whose signature is right. @throws SessionRefused when this service would not make such claims
 */
export function claimsOf(payload: { readonly [claim: string]: unknown }): SessionClaims {
  const { iss, aud, sub, tid, gen, jti, iat, exp, vid, origin, properties, ext } = payload;
  const areTexts = [iss, aud, sub, jti, vid ?? "", origin ?? ""].every((claim) => typeof claim === "string");
  const areIntegers = [tid, gen, iat, exp].every(Number.isSafeInteger);
  const areObjects = [properties ?? {}, ext ?? {}].every((claim) => typeof claim === "object");
  const claims = { iss, aud, sub, tid, gen, jti, iat, exp, vid, origin, properties, ext } as SessionClaims;
  if (!areTexts || !areIntegers || !areObjects || claims.exp - claims.iat > MAX_LIFE_S)
    throw new SessionRefused("malformed");
  return claims;
}

/** Refuses a session that is not valid at a time, in milliseconds since 1970. @throws SessionRefused */
export function requireTime({ iat, exp }: SessionClaims, now: number): void {
  const seconds = now / 1000;
  if (seconds >= exp + CLOCK_TOLERANCE_S) throw new SessionRefused("expired");
  if (iat > seconds + CLOCK_TOLERANCE_S) throw new SessionRefused("too-early");
}

/** The JSON object in a part of a session; undefined when there is none. */
function decoded(part: string): { readonly [name: string]: unknown } | undefined {
  if (!BASE64URL.test(part)) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Not JSON.
  }
  return undefined;
}
