// The rules for viewer sessions, which the service and the clients in Node, on the edge and in browsers share. So this file
// uses no API of a platform. test/fixtures/viewer-sessions.json has a case for each rule.

/** The maximum length of a session: it has to fit into headers, of which servers take 8 KiB at the least. */
export const MAX_SESSION_LENGTH = 8192;

/** How far the `iat` of a session may lie in the future, in seconds: the clocks of two machines may differ by this much. */
export const CLOCK_TOLERANCE_S = 5;

/** The longest that any session lasts, in seconds. */
export const MAX_LIFE_S = 3600;

/** The one algorithm that signs sessions (RFC 7518, 3.4). */
export const ALGORITHM = "ES256";

/** The `typ` that the header of a session has. */
export const TYPE = "viewer+jwt";

/** The header has three short members. */
export const MAX_HEADER_LENGTH = 256;

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
  readonly properties?: JsonObject;
  /** What the maker of the session added. */
  readonly ext?: JsonObject;
}

interface JsonObject {
  readonly [name: string]: unknown;
}

/** The parts of a session that a signature makes true. */
export interface UnverifiedSession {
  readonly kid: string;
  /** Claims of any types, for `claimsOf`. */
  readonly payload: JsonObject;
}

/**
 * 64 bytes in base64url, as ES256 makes them. The unused bits of the last character are zero: one signature has one text.
 * One session can have two signatures, because ECDSA accepts (r, n - s) wherever it accepts (r, s). Nothing may rely on the
 * text of a session to recognize it; `jti` identifies it.
 */
const SIGNATURE = /^[\w-]{85}[AQgw]$/;

/** The deepest nesting of objects and arrays in a claim. The service accepts no deeper ones from callers. */
const MAX_CLAIM_DEPTH = 32;

/**
 * Reads a session, whose signature is still to be verified. The header may have nothing but the id of a key, the type and
 * the one algorithm: no key, no address of keys, and no extension that would have to be understood (RFC 8725).
 *
 * @returns undefined if it is no session
 */
export function readSession(session: string): UnverifiedSession | undefined {
  const [head = "", claims = "", signature = "", ...more] =
    session.length <= MAX_SESSION_LENGTH ? session.split(".", 4) : [];
  if (more.length > 0 || head.length > MAX_HEADER_LENGTH || !SIGNATURE.test(signature)) return undefined;
  const header = objectIn(head);
  const payload = objectIn(claims);
  if (!header || !payload || Object.keys(header).length !== 3) return undefined;
  const { alg, typ, kid } = header;
  return alg === ALGORITHM && typ === TYPE && typeof kid === "string" && kid !== "" ? { kid, payload } : undefined;
}

/**
 * The claims of a session whose signature is right. The key may be stolen, so the types of all claims are checked.
 *
 * @returns undefined if the service would not make such claims
 */
export function claimsOf(payload: JsonObject): SessionClaims | undefined {
  const { iss, aud, sub, tid, gen, jti, iat, exp, vid, origin, properties, ext, nbf } = payload;
  const isWhole =
    [iss, aud, sub, jti].every((claim) => typeof claim === "string") &&
    [tid, gen, iat, exp].every(Number.isSafeInteger) &&
    [vid, origin].every((claim) => claim === undefined || typeof claim === "string") &&
    [properties, ext].every((claim) => claim === undefined || isObject(claim)) &&
    nbf === undefined;
  const claims = { iss, aud, sub, tid, gen, jti, iat, exp, vid, origin, properties, ext } as SessionClaims;
  return isWhole && claims.exp - claims.iat <= MAX_LIFE_S ? claims : undefined;
}

/** The JSON object in a part of a session; undefined when there is none, or one that can be read in two ways. */
export function objectIn(part: string): JsonObject | undefined {
  try {
    const base64 = part.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = atob(base64);
    // Neither padding nor white space nor unused bits that are set.
    if (/[+/]/.test(part) || btoa(bytes).replace(/=+$/, "") !== base64) return undefined;
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const text = decoder.decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
    const value: unknown = JSON.parse(text);
    // Each member has one colon outside of texts: of two members with one name, only one was parsed.
    const colons = text.replace(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
    return isObject(value) && membersIn(value) === colons ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The number of members of all objects in a parsed value; NaN if no answer can carry it: `JSON.parse` reads 1e999 as
 * Infinity, and takes half of a surrogate pair.
 */
function membersIn(value: unknown, depth = 0): number {
  if (typeof value === "string") return value.isWellFormed() ? 0 : Number.NaN;
  if (typeof value === "number") return Number.isFinite(value) ? 0 : Number.NaN;
  if (typeof value !== "object" || value === null) return 0;
  if (depth > MAX_CLAIM_DEPTH) return Number.NaN;
  const names = Array.isArray(value) ? [] : Object.keys(value);
  const parts: readonly unknown[] = [...names, ...Object.values(value)];
  return parts.reduce<number>((sum, part) => sum + membersIn(part, depth + 1), names.length);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
