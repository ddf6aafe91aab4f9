// The rules for viewer sessions. The service and the TypeScript client share this file, so the file must not use APIs
// of Node. test/fixtures/viewer-sessions.json has a case for each rule.

/**
 * The maximum length of a session, in characters. A session must fit into a header, and most servers accept headers of
 * 8 KiB.
 */
export const MAX_SESSION_LENGTH = 8192;

/** The number of seconds by which `iat` may be in the future, because the clocks of two machines can differ. */
export const CLOCK_TOLERANCE_S = 5;

const MAX_LIFE_S = 3600;

export const ALGORITHM = "ES256";

export const TYPE = "viewer+jwt";

/** The maximum length of the header of a session, in characters. The header has only three short members. */
export const MAX_HEADER_LENGTH = 256;

/** The signed claims: claims of RFC 7519, and claims that this service defines. Times are in seconds since 1970. */
export interface SessionClaims {
  readonly iss: string;
  readonly aud: string;
  readonly sub: string;
  /** The internal id of the user group. */
  readonly tid: number;
  /** The generation of sessions of the group. A revocation starts a new generation. */
  readonly gen: number;
  readonly jti: string;
  readonly iat: number;
  readonly exp: number;
  /** The id of the viewer within the group. */
  readonly vid?: string;
  /** The origin of the page. */
  readonly origin?: string;
  readonly properties?: JsonObject;
  /** Additional claims from the request to create the session. */
  readonly ext?: JsonObject;
}

interface JsonObject {
  readonly [name: string]: unknown;
}

/** The parsed parts of a session. The signature of the session has not been verified. */
export interface UnverifiedSession {
  readonly kid: string;
  /** The claims, with unchecked types. `claimsOf` checks the types. */
  readonly payload: JsonObject;
}

/**
 * The form of an ES256 signature. The unused bits of the last character must be zero. A session has two valid
 * signatures: (r, s) and (r, n - s). So identify a session by `jti`, not by its string.
 */
const SIGNATURE = /^[\w-]{85}[AQgw]$/;

/** The maximum nesting depth of objects and arrays in a claim. The service creates no claims with a greater depth. */
const MAX_CLAIM_DEPTH = 32;

/**
 * Parses a session, but does not verify its signature. The header must contain a key id, a type and an algorithm, and
 * nothing else (RFC 8725). Returns undefined if the text is not a session with this header.
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
 * Checks the lifetime of a session and the types of all its claims, because an attacker with a stolen key could sign
 * any claims. Returns undefined for claims that the service never creates.
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

/**
 * Returns the JSON object in a part of a session. Returns undefined if the part is not a JSON object, or if an object
 * in the part has the same name twice.
 */
function objectIn(part: string): JsonObject | undefined {
  try {
    const base64 = part.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = atob(base64);
    // Reject padding, white space, and a last character whose unused bits are not zero.
    if (/[+/]/.test(part) || btoa(bytes).replace(/=+$/, "") !== base64) return undefined;
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const text = decoder.decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
    const value: unknown = JSON.parse(text);
    // Each member has one colon outside of strings. If a name occurs twice, the parsed value has fewer members than the
    // text has colons.
    const colons = text.replace(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
    return isObject(value) && membersIn(value) === colons ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Counts the members of all objects in a parsed value. Returns NaN if the value is nested too deeply, or if it contains
 * an infinite number or an unpaired surrogate. JSON cannot represent such numbers and surrogates.
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
