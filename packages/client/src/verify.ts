import {
  createLocalJWKSet,
  createRemoteJWKSet,
  decodeJwt,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from "jose";
import { connectionFaultOf, type TlsHints, wordsOfFault } from "./connection-faults.ts";

/** The header's `typ` and the one algorithm of viewer sessions, which are pinned (RFC 8725). */
const TYPE = "viewer+jwt";
const ALGORITHM = "ES256";

/** The longest session that the service makes, in characters. */
const MAX_LENGTH = 8192;

/** The longest that any session lasts, in seconds. */
const MAX_LIFE_S = 3600;

/** The greatest difference between the service's clock and that of this process, in seconds. */
const CLOCK_TOLERANCE_S = 5;

/** How long keys are cached, in milliseconds: as long as the service's answer with them may be. */
const KEYS_MAX_AGE_MS = 600_000;

/** The shortest pause between two reads of the keys because of an unknown key, in milliseconds. */
const KEYS_COOLDOWN_MS = 10_000;

/** How long an issuer is not asked again after its keys could not be read, in milliseconds. */
const FAILURE_PAUSE_MS = 1000;

/** How many sets of keys are kept. */
const MAX_KEY_SETS = 1000;

/** Why a viewer session is refused. */
export type SessionRefusal =
  | "malformed"
  | "wrong-issuer"
  | "wrong-audience"
  | "unknown-key"
  | "wrong-signature"
  | "expired"
  | "too-early";

/** The text is not a viewer session, or one that is refused: the page needs another one. */
export class ViewerSessionError extends Error {
  override readonly name = "ViewerSessionError";
  readonly refusal: SessionRefusal;
  constructor(refusal: SessionRefusal, message: string, cause?: unknown) {
    super(message, { cause });
    this.refusal = refusal;
  }
}

/** The keys of an issuer could not be read, so the session could not be checked. */
export class SessionKeysError extends Error {
  override readonly name = "SessionKeysError";
}

/** What a viewer session is checked against. */
export interface VerifyOptions {
  /**
   * The environment whose sessions are accepted, `PUBLIC_URL/e/NAME/TAG`, or several environments. The error for a
   * session of another environment names that one.
   */
  readonly issuer: string | readonly string[];
  /** The audience that sessions must have: `audience` of CreateViewerSession. */
  readonly audience: string;
  /** The URL to read the keys at, if not the one that the issuer has. Only with one issuer. */
  readonly keysUrl?: string | URL;
  /** How long reading the keys may take, in milliseconds. Default: 5,000. */
  readonly timeoutMs?: number;
}

/** What a viewer session says. */
export interface VerifiedViewerSession {
  /** Tells the session from others: the claim `jti`. */
  readonly id: string;
  /** The environment: `iss`. */
  readonly issuer: string;
  /** Whom it was made for: `aud`. */
  readonly audience: string;
  /** The user group: `sub`. */
  readonly userGroupId: string;
  /** The internal id of the user group: `tid`. */
  readonly teamId: number;
  /** The person within the group: `vid`. */
  readonly viewerId: string | undefined;
  /** The origin of the page that it was made for. Compare it with the header `Origin` of requests. */
  readonly origin: string | undefined;
  /** The properties of the group that its maker chose by `property_keys`. */
  readonly properties: { readonly [key: string]: unknown };
  /** What its maker added: `ext`. */
  readonly claims: { readonly [name: string]: unknown };
  /** When it was made: `iat`. */
  readonly createTime: Date;
  /** When it ends: `exp`. */
  readonly expireTime: Date;
}

/** The keys of issuers, by the URL that they are read at, in order of last use. */
const keySets = new Map<string, JWTVerifyGetKey>();

/**
 * Checks a viewer session by the published keys of its environment, which are cached for ten minutes, so that most
 * checks need no request. A session that was revoked is accepted until it expires; `ResolveViewer` refuses it at once.
 *
 * @throws ViewerSessionError when it must not be accepted: answer 401, and have the page obtain another
 * @throws SessionKeysError when the keys cannot be read: answer 503
 */
export async function verifyViewerSession(session: string, options: VerifyOptions): Promise<VerifiedViewerSession> {
  const { issuer: accepted, audience } = options ?? {};
  const issuers = typeof accepted === "string" ? [accepted] : (accepted ?? []);
  if (!issuers.length || issuers.includes("") || !audience)
    throw new TypeError("issuer and audience must be set: sessions of others would be taken");
  if (issuers.length > 1 && options.keysUrl) throw new TypeError("keysUrl is for one issuer alone");
  const issuer = claimedIssuer(session);
  if (!issuers.includes(issuer)) {
    const expected = issuers.slice(0, 3).map((each) => JSON.stringify(each));
    throw refused("wrong-issuer", `it is of ${JSON.stringify(issuer.slice(0, 300))}, not ${expected.join(", ")}`);
  }
  const keysUrl = String(options.keysUrl ?? `${issuer}/.well-known/jwks.json`);
  const keys = keysAt(keysUrl, options.timeoutMs);
  try {
    const { payload } = await jwtVerify(session, keys, {
      algorithms: [ALGORITHM],
      typ: TYPE,
      issuer,
      audience,
      requiredClaims: ["sub", "jti", "iat", "exp"],
      maxTokenAge: MAX_LIFE_S,
      clockTolerance: CLOCK_TOLERANCE_S,
    });
    return verified(payload);
  } catch (error) {
    throw failureOf(error, { issuer, audience, keysUrl });
  }
}

/** The environment that a session claims, before its signature is checked. @throws ViewerSessionError */
function claimedIssuer(session: unknown): string {
  if (typeof session === "object" && session !== null)
    throw refused("malformed", "it is an object, not a text: await it, and take its session");
  if (typeof session !== "string" || session === "") throw refused("malformed", "there is none");
  if (session.length > MAX_LENGTH) throw refused("malformed", `it is longer than ${MAX_LENGTH} characters`);
  try {
    const { iss } = decodeJwt(session);
    if (typeof iss === "string") return iss;
  } catch {
    // Not a JWT.
  }
  throw refused("malformed", "it is no viewer session, but some other text");
}

/** The keys that are published at a URL, which must not come from a session. */
function keysAt(url: string, timeoutMs = 5000): JWTVerifyGetKey {
  const known = keySets.get(url);
  const keys = known ?? publishedKeys(url, timeoutMs);
  if (known) keySets.delete(url);
  keySets.set(url, keys);
  const [oldest] = keySets.keys();
  if (keySets.size > MAX_KEY_SETS && oldest !== undefined) keySets.delete(oldest);
  return keys;
}

/** Published keys, which are read when they are needed, and not for each session while they cannot be. */
function publishedKeys(url: string, timeoutMs: number): JWTVerifyGetKey {
  const published = createRemoteJWKSet(new URL(url), {
    cacheMaxAge: KEYS_MAX_AGE_MS,
    cooldownDuration: KEYS_COOLDOWN_MS,
    timeoutDuration: timeoutMs,
  });
  let failure: unknown;
  let pausesUntil = 0;
  return async (header, token) => {
    const isPausing = performance.now() < pausesUntil;
    const read = isPausing && published.fresh ? published.jwks() : undefined;
    if (isPausing && !read) throw failure;
    try {
      return await (read ? createLocalJWKSet(read) : published)(header, token);
    } catch (error) {
      if (isPausing && error instanceof errors.JWKSNoMatchingKey) throw failure;
      if (isOfSession(error)) throw error;
      failure = error;
      pausesUntil = performance.now() + FAILURE_PAUSE_MS;
      throw error;
    }
  };
}

/** @throws ViewerSessionError when these are not the claims of a viewer session */
function verified(payload: JWTPayload): VerifiedViewerSession {
  const { iss, aud, sub, jti, iat, exp } = payload;
  const { tid, vid, origin, properties = {}, ext = {} } = payload;
  const areTexts = [iss, aud, sub, jti, vid ?? "", origin ?? ""].every((claim) => typeof claim === "string");
  const areNumbers = [tid, iat, exp].every(Number.isSafeInteger);
  const areObjects = [properties, ext].every((claim) => typeof claim === "object" && claim !== null);
  if (!areTexts || !areNumbers || !areObjects)
    throw refused("malformed", "its claims are not those of a viewer session");
  return {
    id: jti as string,
    issuer: iss as string,
    audience: aud as string,
    userGroupId: sub as string,
    teamId: tid as number,
    viewerId: vid as string | undefined,
    origin: origin as string | undefined,
    properties: properties as VerifiedViewerSession["properties"],
    claims: ext as VerifiedViewerSession["claims"],
    createTime: new Date((iat as number) * 1000),
    expireTime: new Date((exp as number) * 1000),
  };
}

/** What a session was checked against, and by. */
interface Checked {
  readonly issuer: string;
  readonly audience: string;
  readonly keysUrl: string;
}

/** The error of the public interface for an error of `jose`. */
function failureOf(error: unknown, { issuer, audience, keysUrl }: Checked): unknown {
  if (error instanceof ViewerSessionError) return error;
  if (error instanceof errors.JWTExpired)
    return refused("expired", `it has expired${byClock(error.payload.exp)}`, error);
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return refused("wrong-signature", "its signature is wrong", error);
  if (error instanceof errors.JWKSNoMatchingKey)
    return refused("unknown-key", `${issuer} publishes no key that it could be signed by`, error);
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === "aud") {
      const [made, expected] = [error.payload.aud, audience].map((each) => JSON.stringify(each));
      return refused("wrong-audience", `it was made for ${made}, not ${expected}`, error);
    }
    if (error.claim === "iat" || error.claim === "nbf")
      return refused("too-early", `it is from the future${byClock(error.payload.iat)}: check the clocks`, error);
  }
  if (!isOfSession(error)) {
    const text = `the keys of ${issuer} cannot be read at ${keysUrl}: ${whyUnread(error, keysUrl)}`;
    return new SessionKeysError(text, { cause: error });
  }
  return refused("malformed", "it is no viewer session", error);
}

/** How far a time is from now, in words. @param time in seconds since 1970 */
function byClock(time: unknown): string {
  return typeof time === "number" ? `, by ${Math.abs(Math.round(Date.now() / 1000 - time))} s` : "";
}

/** Why keys cannot be read, and what to do. */
function whyUnread(error: unknown, keysUrl: string): string {
  const found = connectionFaultOf(error);
  if (found) return wordsOfFault(found, { url: new URL(keysUrl), hints: TLS_HINTS }).join("; ");
  const why = error instanceof Error ? error.message : String(error);
  return `${why}; check that this URL is reached from here, or give keysUrl`;
}

/** Keys are read by `fetch`, which takes authorities from the environment. */
const TLS_HINTS: TlsHints = {
  otherName: "give a keysUrl with the name that it is for",
  clientCertificate: "give a keysUrl that wants none",
  authority: "start Node with NODE_EXTRA_CA_CERTS=FILE, with that authority in PEM",
};

/** Whether an error is about the session, not about reading the keys: `jose` reports most of those with its general error. */
function isOfSession(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return false;
  return error instanceof errors.JOSEError && error.code !== errors.JOSEError.code;
}

function refused(refusal: SessionRefusal, why: string, cause?: unknown): ViewerSessionError {
  return new ViewerSessionError(refusal, `the viewer session is not taken: ${why}`, cause);
}
