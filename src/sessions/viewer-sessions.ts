import { randomBytes } from "node:crypto";
import { type Environment, type EnvironmentName, formatEnvironmentName } from "../domain/environment.ts";
import { PublicUrlMissing, UserGroupSuspended, ViewerSessionInvalid, ViewerSessionTooLarge } from "../domain/errors.ts";
import type { JsonObject, UserGroupTarget, Viewer } from "../domain/user-group.ts";
import type { ViewerSessionStore } from "../domain/viewer-session.ts";
import { discoveryDocument, issuerOf, jwksDocument } from "./documents.ts";
import { MAX_SESSION_LENGTH, type SessionClaims } from "./rules.ts";
import { signSession } from "./signing.ts";
import type { LimitedRead, SigningKeys } from "./signing-keys.ts";
import { FAULTS, SessionVerifier } from "./verifier.ts";

const DEFAULT_TTL_MS = 600_000;

/** A client should renew a session after this fraction of the lifetime of the session. */
const REFRESH_AT = 0.8;

interface NewViewerSession {
  readonly target: UserGroupTarget;
  readonly audience: string;
  /** The lifetime in milliseconds. Default: ten minutes. */
  readonly ttlMs: number | undefined;
  readonly viewerId: string | undefined;
  readonly origin: string | undefined;
  readonly propertyKeys: readonly string[];
  readonly claims: JsonObject | undefined;
}

/** The claims of a session, without the claims about the group. */
export type ViewerSessionClaims = Pick<SessionClaims, "jti" | "iss" | "aud" | "vid" | "origin" | "ext" | "iat" | "exp">;

export class ViewerSessions {
  /** The maximum lifetime of a session, in milliseconds. */
  readonly maxMs: number;
  /** The public URL of the service, without a slash at the end. Undefined if the URL is unknown. */
  publicUrl: string | undefined;
  readonly #keys: SigningKeys;
  readonly #verifier = new SessionVerifier();

  constructor({
    keys,
    maxMs,
    publicUrl,
  }: { readonly keys: SigningKeys } & Pick<ViewerSessions, "maxMs" | "publicUrl">) {
    this.#keys = keys;
    this.maxMs = maxMs;
    this.publicUrl = publicUrl;
  }

  /**
   * Creates a session. The returned times are in milliseconds since 1970.
   *
   * @throws PublicUrlMissing, UserGroupSuspended, ViewerSessionTooLarge, or an error of
   *   `ViewerSessionStore.sessionSubject` or of `SigningKeys.signing`
   */
  async create(
    store: ViewerSessionStore,
    environment: Environment,
    { target, audience, ttlMs = DEFAULT_TTL_MS, viewerId, origin, propertyKeys, claims }: NewViewerSession,
  ) {
    const iss = this.#issuerOf(environment);
    // A revocation may follow the read of the group. Redis stores the revocation a little longer than the maximum
    // lifetime of a session. Read the clock before reading the group, so that the session expires before Redis removes
    // the revocation.
    const iat = Math.floor(Date.now() / 1000);
    const [subject, { kid, key }] = await Promise.all([
      store.sessionSubject(environment, target),
      this.#keys.signing(environment),
    ]);
    const { viewer, generation } = subject;
    if (viewer.suspension) throw new UserGroupSuspended(viewer.suspension.message);
    const ends = iat + Math.floor(Math.min(ttlMs, this.maxMs) / 1000);
    const { tokenExpireTime = Number.POSITIVE_INFINITY, expireTime = Number.POSITIVE_INFINITY } = viewer;
    const exp = Math.min(ends, Math.floor(Math.min(tokenExpireTime, expireTime) / 1000));
    const jti = randomBytes(16).toString("base64url");
    const session: SessionClaims = {
      iss,
      aud: audience,
      sub: viewer.providedId,
      tid: viewer.teamId,
      gen: generation,
      jti,
      iat,
      exp,
      ...(viewerId !== undefined && { vid: viewerId }),
      ...(origin !== undefined && { origin }),
      ...(propertyKeys.length > 0 && { properties: pickedFrom(viewer.properties, propertyKeys) }),
      ...(claims !== undefined && { ext: claims }),
    };
    const text = await signSession(session, { kid, key });
    if (text.length > MAX_SESSION_LENGTH) throw new ViewerSessionTooLarge(text.length, MAX_SESSION_LENGTH);
    const refreshTime = Math.floor(iat + (exp - iat) * REFRESH_AT) * 1000;
    return { text, viewer, id: jti, expireTime: exp * 1000, refreshTime };
  }

  /**
   * Returns the current group of a session, and the claims of the session. Returns the group even if it is suspended.
   *
   * @param audience the expected audience. If empty, any audience is accepted
   * @throws ViewerSessionInvalid, ViewerSessionExpired, PublicUrlMissing, or an error of
   *   `ViewerSessionStore.resolveSession`
   */
  async resolve(
    store: ViewerSessionStore,
    environment: Environment,
    { session, audience }: { readonly session: string; readonly audience: string },
  ): Promise<{ readonly viewer: Viewer; readonly claims: ViewerSessionClaims }> {
    const issuer = this.#issuerOf(environment);
    const keyOf = (kid: string) => this.#keys.keyOf(environment, kid);
    const claims = await this.#verifier.verify(session, { issuer, keyOf });
    if (audience !== "" && claims.aud !== audience) throw new ViewerSessionInvalid(FAULTS.otherAudience);
    const { sub: providedId, tid: teamId, gen: generation, vid: viewerId } = claims;
    const viewer = await store.resolveSession(environment, { providedId, teamId, generation, viewerId });
    return { viewer, claims };
  }

  /**
   * Returns a published document of an environment. Returns undefined if the environment does not exist or has no
   * signing keys.
   *
   * @param limited see `SigningKeys.published`
   * @throws PublicUrlMissing
   */
  async published(environment: EnvironmentName, name: WellKnown, limited: LimitedRead): Promise<object | undefined> {
    const keys = await this.#keys.published(environment, limited);
    if (keys.length === 0) return undefined;
    return name === "jwks.json" ? jwksDocument(keys) : discoveryDocument(this.#issuerOf(environment));
  }

  #issuerOf(environment: EnvironmentName): string {
    if (this.publicUrl === undefined) throw new PublicUrlMissing();
    return issuerOf(this.publicUrl, formatEnvironmentName(environment));
  }
}

/** The names of the documents of an issuer, below `/.well-known/`. */
export type WellKnown = "openid-configuration" | "jwks.json";

function pickedFrom(properties: JsonObject = {}, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(properties).filter(([key]) => keys.includes(key)));
}
