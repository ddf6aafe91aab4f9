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

/** Time for which keys are cached, in milliseconds. */
const KEYS_MAX_AGE_MS = 600_000;

/** Time after a successful read of the keys, in milliseconds. During this time, an unknown key causes no other read. */
const KEYS_COOLDOWN_MS = 1000;

/** Minimum time between a failed read of the keys and the next read, in milliseconds. */
const FAILURE_PAUSE_MS = 1000;

const MAX_KEYS_BYTES = 1024 * 1024;

const MAX_KEY_SETS = 1000;

/** The reason for the rejection of a viewer session. */
export type SessionRefusal =
  | "malformed"
  | "wrong-issuer"
  | "wrong-audience"
  | "unknown-key"
  | "wrong-signature"
  | "expired"
  | "too-early";

/** The viewer session is invalid, or belongs to another issuer or audience. Respond with 401. */
export class ViewerSessionError extends Error {
  override readonly name = "ViewerSessionError";
  readonly refusal: SessionRefusal;
  constructor(refusal: SessionRefusal, message: string, cause?: unknown) {
    super(message, { cause });
    this.refusal = refusal;
  }
}

/** The keys of the issuer cannot be read, so the session is not verified. Respond with 503. */
export class SessionKeysError extends Error {
  override readonly name = "SessionKeysError";
}

/** Options of `verifyViewerSession`. */
export interface VerifyOptions {
  /**
   * The accepted issuer (`PUBLIC_URL/e/NAME/TAG` of an environment), or several issuers. If a session has another
   * issuer, the error contains that issuer.
   */
  readonly issuer: string | readonly string[];
  /** The accepted audience. The value must equal `audience` in the request of CreateViewerSession. */
  readonly audience: string;
  /**
   * URL of the keys. Allowed only with a single issuer. Default: `/.well-known/jwks.json` below the URL of the issuer.
   */
  readonly keysUrl?: string | URL;
  /** Time limit for reading the keys, in milliseconds. Default: 5,000. */
  readonly timeoutMs?: number;
}

/** The claims of a verified viewer session. */
export interface VerifiedViewerSession {
  /** Unique id of the session: the claim `jti`. */
  readonly id: string;
  /** URL of the environment: the claim `iss`. */
  readonly issuer: string;
  /** The audience: the claim `aud`. */
  readonly audience: string;
  /** Id of the user group: the claim `sub`. */
  readonly userGroupId: string;
  /** Internal id of the user group: the claim `tid`. */
  readonly teamId: number;
  /** Id of the viewer within the group: the claim `vid`. Undefined if the session does not have this claim. */
  readonly viewerId: string | undefined;
  /**
   * Origin of the page: the claim `origin`. Undefined if the session does not have this claim. Compare this value with
   * the header `Origin` of requests.
   */
  readonly origin: string | undefined;
  /** The group properties that the field `property_keys` of CreateViewerSession selected. */
  readonly properties: { readonly [key: string]: unknown };
  /** The additional claims that the back end has chosen: the content of the claim `ext`. */
  readonly claims: { readonly [name: string]: unknown };
  /** Time of the creation of the session: the claim `iat`. */
  readonly createTime: Date;
  /** Expiry time: the claim `exp`. */
  readonly expireTime: Date;
}

type PublishedKeys = (header: JWSHeaderParameters) => Promise<CryptoKey>;

/** Cached keys by URL. The least recently used URL is the first. */
const keySets = new Map<string, PublishedKeys>();

/**
 * Verifies a viewer session with the keys that the environment of the session publishes. The keys are cached for ten
 * minutes, so most calls need no request. Accepts a revoked session until the session expires. `ResolveViewer` rejects
 * a revoked session immediately.
 *
 * @throws ViewerSessionError if the session is invalid. Respond with 401
 * @throws SessionKeysError if the keys cannot be read. Respond with 503
 */
export async function verifyViewerSession(session: string, options: VerifyOptions): Promise<VerifiedViewerSession> {
  const { issuer: accepted, audience } = options ?? {};
  const issuers = typeof accepted === "string" ? [accepted] : (accepted ?? []);
  if (!issuers.length || issuers.includes("") || !audience)
    throw new TypeError("issuer and audience must be set: otherwise sessions of other environments would be accepted");
  if (issuers.length > 1 && options.keysUrl) throw new TypeError("keysUrl needs exactly one issuer");
  const { kid, payload } = readWhole(session);
  const { iss: issuer } = payload;
  if (typeof issuer !== "string") throw refused("malformed", "its claims are not those of a viewer session");
  if (!issuers.includes(issuer)) {
    const expected = issuers.slice(0, 3).map((each) => JSON.stringify(each));
    throw refused("wrong-issuer", `its issuer is ${JSON.stringify(issuer.slice(0, 300))}, not ${expected.join(", ")}`);
  }
  const keysUrl = String(options.keysUrl ?? `${issuer}/.well-known/jwks.json`);
  await verifySignature(session, await keyOf(kid, { issuer, keysUrl, timeoutMs: options.timeoutMs }));
  const claims = claimsOf(payload);
  if (!claims) throw refused("malformed", "its claims are not those of a viewer session");
  if (claims.aud !== audience) {
    const [made, expected] = [claims.aud.slice(0, 300), audience].map((each) => JSON.stringify(each));
    throw refused("wrong-audience", `its audience is ${made}, not ${expected}`);
  }
  requireTime(claims);
  return verified(claims);
}

/** Parses a session, but does not check the signature. @throws ViewerSessionError if the session is malformed */
function readWhole(session: unknown): UnverifiedSession {
  if (typeof session === "object" && session !== null)
    throw refused("malformed", "it is an object, not a string: await the response, and pass its field session");
  if (typeof session !== "string" || session === "") throw refused("malformed", "it is empty or not a string");
  if (session.length > MAX_SESSION_LENGTH)
    throw refused("malformed", `it is longer than ${MAX_SESSION_LENGTH} characters`);
  const read = readSession(session);
  if (!read) throw refused("malformed", "it is not a viewer session");
  return read;
}

/**
 * Returns the key with the id `kid`.
 *
 * @throws ViewerSessionError if the key is not published
 * @throws SessionKeysError if the keys cannot be read
 */
async function keyOf(
  kid: string,
  { issuer, keysUrl, timeoutMs }: { issuer: string; keysUrl: string; timeoutMs: number | undefined },
): Promise<CryptoKey> {
  try {
    return await keysAt(keysUrl, timeoutMs)({ alg: ALGORITHM, kid });
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey)
      throw refused("unknown-key", `${issuer} does not publish the key that signed the session`, error);
    const text = `the keys of ${issuer} cannot be read at ${keysUrl}: ${whyUnread(error, keysUrl)}`;
    throw new SessionKeysError(text, { cause: error });
  }
}

/** @throws ViewerSessionError if another key signed the session */
async function verifySignature(session: string, key: CryptoKey): Promise<void> {
  try {
    await compactVerify(session, key, { algorithms: [ALGORITHM] });
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error;
    throw refused("wrong-signature", "its signature is wrong", error);
  }
}

/** @throws ViewerSessionError if the session has expired, or if the creation time of the session is in the future */
function requireTime({ iat, exp }: SessionClaims): void {
  const now = Date.now() / 1000;
  if (now >= exp + CLOCK_TOLERANCE_S) throw refused("expired", `it expired ${Math.round(now - exp)} s ago`);
  if (now < iat - CLOCK_TOLERANCE_S)
    throw refused("too-early", `its creation time is ${Math.round(iat - now)} s in the future: check the clocks`);
}

/**
 * Returns the function that finds a key among the keys at a URL. The URL must be trusted, not taken from an unverified
 * session.
 */
function keysAt(url: string, timeoutMs = 5000): PublishedKeys {
  const keys = keySets.get(url) ?? publishedKeys(url, timeoutMs);
  keySets.delete(url);
  keySets.set(url, keys);
  const [oldest] = keySets.keys();
  if (keySets.size > MAX_KEY_SETS && oldest !== undefined) keySets.delete(oldest);
  return keys;
}

/**
 * Returns a function that finds a key. If the key is not cached, the function reads the keys. After a failed read, the
 * function does not read the keys again for `FAILURE_PAUSE_MS`. During this pause, the function uses the cached keys.
 * If the cached keys are too old or do not contain the key, the function throws the error of the failed read.
 */
function publishedKeys(url: string, timeoutMs: number): PublishedKeys {
  const published = createRemoteJWKSet(new URL(url), {
    cacheMaxAge: KEYS_MAX_AGE_MS,
    cooldownDuration: KEYS_COOLDOWN_MS,
    // This time limit includes reading the body of the response.
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

/** Fetches a response with keys. Fails if the response is larger than `MAX_KEYS_BYTES`. */
async function fetchKeys(url: string, options: Parameters<typeof fetch>[1]): Promise<Response> {
  const response = await fetch(url, options);
  // Only a response with status 200 contains keys. jose throws an error if the response has another status.
  if (response.status !== 200) {
    await response.body?.cancel();
    return response;
  }
  const reader = response.body?.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    size += read.value.length;
    if (size > MAX_KEYS_BYTES) throw new Error(`the response has more than ${MAX_KEYS_BYTES} bytes`);
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

function whyUnread(error: unknown, keysUrl: string): string {
  const found = connectionFaultOf(error);
  if (found) return wordsOfFault(found, { url: new URL(keysUrl), hints: TLS_HINTS }).join("; ");
  const why = error instanceof Error ? error.message : String(error);
  return `${why}; check that this process can reach the URL, or set keysUrl`;
}

/** Remedies for TLS errors. `fetch` reads the keys, and has no TLS options, so the remedies name other measures. */
const TLS_HINTS: TlsHints = {
  otherName: "set keysUrl to a URL with the name of the certificate",
  clientCertificate: "set keysUrl to a URL that requires no client certificate",
  authority: "start Node with NODE_EXTRA_CA_CERTS=FILE, a file with the certificate of that CA in PEM",
};

function refused(refusal: SessionRefusal, why: string, cause?: unknown): ViewerSessionError {
  return new ViewerSessionError(refusal, `the viewer session is rejected: ${why}`, cause);
}
