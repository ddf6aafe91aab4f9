import {
  type CryptoKey,
  compactVerify,
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWSHeaderParameters,
} from "jose";
import {
  ALGORITHM,
  CLOCK_TOLERANCE_S,
  claimsOf,
  MAX_SESSION_LENGTH,
  readSession,
  type SessionClaims,
  type UnverifiedSession,
} from "../../../src/sessions/rules.ts";
import { connectionFaultOf, type TlsHints, wordsOfFault } from "./connection-faults.ts";

/** How long keys are cached, in milliseconds: as long as the service's answer with them may be. */
const KEYS_MAX_AGE_MS = 600_000;

/** The shortest pause between two reads of the keys because of an unknown key, in milliseconds. */
const KEYS_COOLDOWN_MS = 1000;

/** How long an issuer is not asked again after its keys could not be read, in milliseconds. */
const FAILURE_PAUSE_MS = 1000;

/** The largest answer with keys, in bytes. */
const MAX_KEYS_BYTES = 1024 * 1024;

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

type PublishedKeys = (header: JWSHeaderParameters) => Promise<CryptoKey>;

/** The keys of issuers, by the URL that they are read at, in order of last use. */
const keySets = new Map<string, PublishedKeys>();

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
  const { kid, payload } = readWhole(session);
  const { iss: issuer } = payload;
  if (typeof issuer !== "string") throw refused("malformed", "its claims are not those of a viewer session");
  if (!issuers.includes(issuer)) {
    const expected = issuers.slice(0, 3).map((each) => JSON.stringify(each));
    throw refused("wrong-issuer", `it is of ${JSON.stringify(issuer.slice(0, 300))}, not ${expected.join(", ")}`);
  }
  const keysUrl = String(options.keysUrl ?? `${issuer}/.well-known/jwks.json`);
  await verifySignature(session, await keyOf(kid, { issuer, keysUrl, timeoutMs: options.timeoutMs }));
  const claims = claimsOf(payload);
  if (!claims) throw refused("malformed", "its claims are not those of a viewer session");
  if (claims.aud !== audience) {
    const [made, expected] = [claims.aud.slice(0, 300), audience].map((each) => JSON.stringify(each));
    throw refused("wrong-audience", `it was made for ${made}, not ${expected}`);
  }
  requireTime(claims);
  return verified(claims);
}

/** The parts of a session, before its signature is checked. @throws ViewerSessionError */
function readWhole(session: unknown): UnverifiedSession {
  if (typeof session === "object" && session !== null)
    throw refused("malformed", "it is an object, not a text: await it, and take its session");
  if (typeof session !== "string" || session === "") throw refused("malformed", "there is none");
  if (session.length > MAX_SESSION_LENGTH)
    throw refused("malformed", `it is longer than ${MAX_SESSION_LENGTH} characters`);
  const read = readSession(session);
  if (!read) throw refused("malformed", "it is no viewer session, but some other text");
  return read;
}

/** The key of a session. @throws ViewerSessionError when its issuer has none of this id, SessionKeysError */
async function keyOf(
  kid: string,
  { issuer, keysUrl, timeoutMs }: { issuer: string; keysUrl: string; timeoutMs: number | undefined },
): Promise<CryptoKey> {
  try {
    return await keysAt(keysUrl, timeoutMs)({ alg: ALGORITHM, kid });
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey)
      throw refused("unknown-key", `${issuer} publishes no key that it could be signed by`, error);
    const text = `the keys of ${issuer} cannot be read at ${keysUrl}: ${whyUnread(error, keysUrl)}`;
    throw new SessionKeysError(text, { cause: error });
  }
}

/** @throws ViewerSessionError */
async function verifySignature(session: string, key: CryptoKey): Promise<void> {
  try {
    await compactVerify(session, key, { algorithms: [ALGORITHM] });
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error;
    throw refused("wrong-signature", "its signature is wrong", error);
  }
}

/** @throws ViewerSessionError when a session has expired, or is from the future */
function requireTime({ iat, exp }: SessionClaims): void {
  const now = Date.now() / 1000;
  if (now >= exp + CLOCK_TOLERANCE_S) throw refused("expired", `it has expired, by ${Math.round(now - exp)} s`);
  if (now < iat - CLOCK_TOLERANCE_S)
    throw refused("too-early", `it is from the future, by ${Math.round(iat - now)} s: check the clocks`);
}

/** The keys that are published at a URL, which must not come from a session. */
function keysAt(url: string, timeoutMs = 5000): PublishedKeys {
  const known = keySets.get(url);
  const keys = known ?? publishedKeys(url, timeoutMs);
  if (known) keySets.delete(url);
  keySets.set(url, keys);
  const [oldest] = keySets.keys();
  if (keySets.size > MAX_KEY_SETS && oldest !== undefined) keySets.delete(oldest);
  return keys;
}

/** Published keys, which are read when they are needed, and not for each session while they cannot be. */
function publishedKeys(url: string, timeoutMs: number): PublishedKeys {
  const published = createRemoteJWKSet(new URL(url), {
    cacheMaxAge: KEYS_MAX_AGE_MS,
    cooldownDuration: KEYS_COOLDOWN_MS,
    // Until the whole answer is read.
    timeoutDuration: timeoutMs,
    [customFetch]: fetchKeys,
  });
  let failure: unknown;
  let pausesUntil = 0;
  return async (header) => {
    const isPausing = performance.now() < pausesUntil;
    const read = isPausing && published.fresh ? published.jwks() : undefined;
    if (isPausing && !read) throw failure;
    try {
      return await (read ? createLocalJWKSet(read) : published)(header);
    } catch (error) {
      if (isPausing && error instanceof errors.JWKSNoMatchingKey) throw failure;
      if (error instanceof errors.JWKSNoMatchingKey) throw error;
      failure = error;
      pausesUntil = performance.now() + FAILURE_PAUSE_MS;
      throw error;
    }
  };
}

/** Fetches an answer with keys, as long as it is not too large. */
async function fetchKeys(url: string, options: Parameters<typeof fetch>[1]): Promise<Response> {
  const response = await fetch(url, options);
  // Only an answer with this status has keys. The caller reports others, some of which may have no body.
  if (response.status !== 200) {
    await response.body?.cancel();
    return response;
  }
  const reader = response.body?.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    size += read.value.length;
    if (size > MAX_KEYS_BYTES) throw new Error(`its answer has more than ${MAX_KEYS_BYTES} bytes`);
    chunks.push(read.value);
  }
  return new Response(new Blob(chunks));
}

function verified(claims: SessionClaims): VerifiedViewerSession {
  const { iss, aud, sub, tid, jti, iat, exp, vid, origin, properties = {}, ext = {} } = claims;
  return {
    id: jti,
    issuer: iss,
    audience: aud,
    userGroupId: sub,
    teamId: tid,
    viewerId: vid,
    origin,
    properties,
    claims: ext,
    createTime: new Date(iat * 1000),
    expireTime: new Date(exp * 1000),
  };
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

function refused(refusal: SessionRefusal, why: string, cause?: unknown): ViewerSessionError {
  return new ViewerSessionError(refusal, `the viewer session is not taken: ${why}`, cause);
}
