import { randomBytes } from "node:crypto";

/** The maximum length of a session: it has to fit into headers, of which servers take 8 KiB at the least. */
export const MAX_SESSION_LENGTH = 8192;

/** How far the `iat` of a session may lie in the future, in seconds: the clocks of two workers may differ by this much. */
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
 * 64 bytes in base64url, as ES256 makes them. The unused bits of the last character are zero: one signature has one text.
 * One session can have two signatures, because ECDSA accepts (r, n - s) wherever it accepts (r, s). Nothing may rely on the
 * text of a session to recognize it; `jti` identifies it.
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

/** The deepest nesting of objects and arrays in `properties` and `ext`. The service accepts no deeper ones from callers. */
const MAX_CLAIM_DEPTH = 32;

/**
 * The claims of a session whose signature is right. The key may be stolen, so the types of all claims are checked.
 *
 * @throws SessionRefused if this service would not make such claims
 */
export function claimsOf(payload: { readonly [claim: string]: unknown }): SessionClaims {
  const { iss, aud, sub, tid, gen, jti, iat, exp, vid, origin, properties, ext } = payload;
  const isWhole =
    [iss, aud, sub, jti].every(isText) &&
    [tid, gen, iat, exp].every(Number.isSafeInteger) &&
    [vid, origin].every((claim) => claim === undefined || isText(claim)) &&
    [properties, ext].every((claim) => claim === undefined || (isObject(claim) && isJson(claim)));
  const claims = { iss, aud, sub, tid, gen, jti, iat, exp, vid, origin, properties, ext } as SessionClaims;
  if (!isWhole || claims.exp - claims.iat > MAX_LIFE_S) throw new SessionRefused("malformed");
  return claims;
}

/** Whether a claim is a text that protobuf can carry: it has no lone surrogates. */
function isText(claim: unknown): boolean {
  return typeof claim === "string" && claim.isWellFormed();
}

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a parsed value can be written as JSON again: `JSON.parse` reads 1e999 as Infinity. */
function isJson(value: unknown, depth = 0): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return depth < MAX_CLAIM_DEPTH && Object.values(value).every((each) => isJson(each, depth + 1));
}

/**
 * Refuses a session that is not valid at a time, in milliseconds since 1970. There is no tolerance at its end, because a
 * session must not outlast the grace period of its token.
 *
 * @throws SessionRefused
 */
export function requireTime({ iat, exp }: SessionClaims, now: number): void {
  const seconds = now / 1000;
  if (seconds >= exp) throw new SessionRefused("expired");
  if (iat > seconds + CLOCK_TOLERANCE_S) throw new SessionRefused("too-early");
}

/** The JSON object in a part of a session; undefined when there is none. */
function decoded(part: string): { readonly [name: string]: unknown } | undefined {
  if (!BASE64URL.test(part)) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    if (isObject(value)) return value;
  } catch {
    // Not JSON.
  }
  return undefined;
}
