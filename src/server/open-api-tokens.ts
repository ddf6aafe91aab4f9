import { createHmac } from "node:crypto";
import { type BoundPrincipal, IssuedTokens, ROOT, type StaticToken, TokenUses } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import type { ApiTokenSetting } from "../config/parse.ts";
import type { Environment } from "../domain/environment.ts";
import { newApiToken } from "../domain/token.ts";
import { errorFields } from "../observability/log.ts";
import { redisApiTokens } from "../store/api-tokens/api-tokens.ts";
import { type FeedListener, followRevocations } from "../store/api-tokens/revocation-feed.ts";
import { deriveKey } from "../store/encryption.ts";
import type { OpenDeps } from "./open-sessions.ts";
import type { RedisState } from "./redis-state.ts";

/** The settings that hold tokens. */
export type TokenSettings = Pick<Config, "adminTokens" | "apiTokens">;

/** Tokens that the service generates for development, to be announced. They last as long as the process. */
export interface DevelopmentTokens {
  readonly apiTokens: readonly ApiTokenSetting[];
  /** None, or one for the console. */
  readonly adminTokens: readonly string[];
}

/** Generates tokens for the embedded store if the settings have no API token. */
export function generateTokens({ redisUrl, apiTokens, adminTokens }: Config, hasConsole: boolean): DevelopmentTokens {
  if (redisUrl !== undefined || apiTokens.length > 0) return { apiTokens: [], adminTokens: [] };
  const tags = ["Customer", "Testing"] as const;
  return {
    apiTokens: tags.map((tag) => ({ environment: { name: "dev", tag }, token: newApiToken() })),
    adminTokens: hasConsole && adminTokens.length === 0 ? [newApiToken()] : [],
  };
}

/** Opens the authentication of issued API tokens, and the subscription to revocations by other workers. */
export function openIssuedTokens(
  { redisUrl, apiTokenCacheMs }: Config,
  { client, audit, lifecycle, logger }: OpenDeps,
  /** `createListener`: creates the listener for revocations and signing-key changes. `onDeleted`: called with deleted environments. */
  {
    createListener,
    onDeleted,
  }: {
    readonly createListener: (listener: FeedListener) => FeedListener;
    readonly onDeleted: (environment: Environment) => void;
  },
) {
  const listener = createListener({
    revoked: (digest) => issued.revoked(digest),
    environmentDeleted(environment) {
      issued.environmentDeleted(environment);
      onDeleted(environment);
    },
    signingKeysChanged: () => {},
    missed: () => issued.missed(),
    refused: (error) => logger.warn(errorFields(error), REFUSED),
  });
  const apiTokenStore = redisApiTokens({ client, listener, audit });
  const uses = new TokenUses(apiTokenStore);
  lifecycle.onClose("last uses of API tokens", () => uses.flush());
  const issued = new IssuedTokens({
    ...{ store: apiTokenStore, uses, cacheMs: apiTokenCacheMs },
    confirmMissing: () => client.confirmMissing(),
  });
  // The embedded store serves this process alone.
  if (redisUrl !== undefined) lifecycle.onClose("subscription to revocations", followRevocations(client, listener));
  return { issued, listener };
}

const REFUSED =
  "Redis does not let its user subscribe to the channel ug:revoked, or publish there: revoked API tokens and changes of signing keys, also with end_sessions, reach the other workers within API_TOKEN_CACHE, not at once. Run at every node of Redis: ACL SETUSER NAME &ug:revoked +subscribe +publish";

/** How many hexadecimal digits name a static API token without a name: enough that no two of a service are alike. */
const STATIC_ID_DIGITS = 10;

/**
 * The API tokens of the settings. One without a name is called by a digest of its token, so that it keeps its id wherever
 * it stands among the others. The digest is keyed: a plain one in logs and events would let their readers check what they
 * guess of a weak token.
 *
 * @param secret of a key of the ring: the last one, which changes least
 */
export async function staticTokens(
  { adminTokens, apiTokens }: TokenSettings,
  state: RedisState,
  secret: Uint8Array,
): Promise<StaticToken[]> {
  const key = deriveKey(secret, "id of a static API token");
  const bound = apiTokens.map(async ({ token, name, environment: wanted }): Promise<StaticToken> => {
    const id = `static-${name ?? createHmac("sha256", key).update(token).digest("hex").slice(0, STATIC_ID_DIGITS)}`;
    const displayName = name ?? "an entry of API_TOKENS without a name";
    const principalOf = (environment: Environment): BoundPrincipal => {
      const learnAgain = async () => {
        state.forget(environment);
        const next = await state.use(wanted);
        return next.number === environment.number ? undefined : principalOf(next);
      };
      return { id, displayName, role: "manage", environment, expireTime: undefined, learnAgain };
    };
    const known = await state.useIfThere(wanted);
    const learn = async () => principalOf(await state.use(wanted));
    return { token, principal: known && principalOf(known), learn };
  });
  const root = adminTokens.map((token) => ({ token, principal: ROOT, learn: async () => ROOT }));
  return [...(await Promise.all(bound)), ...root];
}
