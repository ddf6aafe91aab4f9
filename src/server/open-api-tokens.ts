import { IssuedTokens } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import type { ApiTokenSetting } from "../config/parse.ts";
import { type Environment, environmentPath } from "../domain/environment.ts";
import { newApiToken } from "../domain/token.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import { SigningKeys } from "../sessions/signing-keys.ts";
import { ViewerSessions } from "../sessions/viewer-sessions.ts";
import { type FeedListener, followRevocations } from "../store/api-tokens/revocation-feed.ts";
import type { StoreClient } from "../store/connection/client.ts";
import type { GroupDeps } from "../store/groups/group-record.ts";
import { redisSigningKeys } from "../store/secret-keys/signing-keys.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { openStores } from "./open-store.ts";

/** Tokens for development. The service generates and prints these tokens. They are valid until the process exits. */
export interface DevelopmentTokens {
  readonly apiTokens: readonly ApiTokenSetting[];
  /**
   * One token for the console. Empty if the console is off, if `ADMIN_TOKEN` is set, or if the service generates no
   * tokens.
   */
  readonly adminTokens: readonly string[];
}

export function generateTokens({ redis, apiTokens, adminTokens }: Config, hasConsole: boolean): DevelopmentTokens {
  if (redis || apiTokens.length > 0) return { apiTokens: [], adminTokens: [] };
  const tags = ["Customer", "Testing"] as const;
  return {
    apiTokens: tags.map((tag) => ({ environment: { name: "dev", tag }, token: newApiToken() })),
    adminTokens: hasConsole && adminTokens.length === 0 ? [newApiToken()] : [],
  };
}

interface IssuedDeps extends GroupDeps {
  readonly storeClient: StoreClient;
  readonly lifecycle: Lifecycle;
  readonly logger: Logger;
  readonly onDeleted: (environment: Environment) => void;
}

/**
 * Opens the stores, the viewer sessions, and the API tokens that AdminService creates. If the service uses Redis,
 * subscribes to the revocations and signing-key changes of other workers.
 */
export function openIssuedTokens(
  config: Config,
  { client, cipher, audit, storeClient, lifecycle, logger, onDeleted }: IssuedDeps,
) {
  const listener: FeedListener = {
    revoked: (digest) => issued.revoked(digest),
    environmentDeleted(environment) {
      issued.environmentDeleted(environment);
      onDeleted(environment);
      signingKeys.forget(environmentPath(environment));
    },
    signingKeysChanged: (environment) => signingKeys.forget(environmentPath(environment)),
    missed() {
      issued.missed();
      signingKeys.setSubscribed(true);
      signingKeys.forget();
    },
    refused(error) {
      logger.warn(errorFields(error), REFUSED);
      signingKeys.setSubscribed(false);
    },
  };
  const stores = openStores(storeClient, { cipher, audit, listener });
  const signingKeys = new SigningKeys({
    store: redisSigningKeys({ client, cipher, audit }),
    environments: stores.environments,
    confirmMissing: () => client.confirmMissing(),
    unsubscribedMs: config.apiTokenCacheMs,
    onOverdue: (error) =>
      logger.warn(
        errorFields(error),
        "a due rotation of signing keys failed, so the current keys stay in use; the service tries again at the next read of these keys from Redis",
      ),
  });
  const sessions = new ViewerSessions({
    keys: signingKeys,
    maxMs: config.viewerSessionMaxMs,
    publicUrl: config.publicUrl,
  });
  const issued = new IssuedTokens({
    store: stores.apiTokens,
    cacheMs: config.apiTokenCacheMs,
    confirmMissing: () => client.confirmMissing(),
  });
  // No other process uses the embedded store, so the embedded store needs no subscription.
  if (config.redis) lifecycle.onClose("subscription to revocations", followRevocations(client, listener));
  return { stores, sessions, signingKeys, issued };
}

const REFUSED =
  "The Redis user may not subscribe or publish to the channel ug:revoked. Until API_TOKEN_CACHE has passed, other workers may accept a revoked API token and use replaced signing keys. Run on every Redis node: ACL SETUSER NAME &ug:revoked +subscribe +publish";
