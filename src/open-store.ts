import { RateLimiter } from "./auth/rate-limiter.ts";
import type { Config } from "./config/config.ts";
import type { ApiTokenStore } from "./domain/api-token.ts";
import { formatEnvironmentName } from "./domain/environment.ts";
import type { RateLimit } from "./domain/store.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { Metrics, RateLimitName } from "./observability/metrics.ts";
import type { RateLimiters } from "./rpc/access.ts";
import type { Stores } from "./rpc/routes.ts";
import { Audit } from "./store/audit/audit.ts";
import { redisAuditTrail } from "./store/audit/audit-trail.ts";
import { openEmbedded } from "./store/embedded/embedded.ts";
import type { TokenCipher } from "./store/encryption/encryption.ts";
import { redisEnvironmentDeletion } from "./store/environments/environment-deletion.ts";
import { redisEnvironments } from "./store/environments/environments.ts";
import { redisUserGroupAdmin } from "./store/groups/user-group-admin.ts";
import { redisUserGroups } from "./store/groups/user-groups.ts";
import { rateCounter } from "./store/rate-counter.ts";
import type { StoreClient } from "./store/redis/client.ts";
import { openRedis } from "./store/redis/open.ts";
import { RedisTokenKeys } from "./store/secret-keys/token-keys.ts";

/** What the store is opened with. */
interface StoreObservers {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Called whenever a connection to Redis is ready. */
  readonly onReady: () => void;
}

/** Opens the store that the settings name, and logs what becomes of its connections. @throws StoreUnavailable, StoreMisconfigured */
export async function openStore(config: Config, { logger, metrics, onReady }: StoreObservers): Promise<StoreClient> {
  const observe = metrics.observeStore.bind(metrics);
  if (config.redisUrl === undefined) {
    logger.warn(
      "REDIS_URL is not set: the embedded store keeps everything in memory and loses it when the process ends",
    );
    return openEmbedded({ timeoutMs: config.redisTimeoutMs, observe });
  }
  let lastText = "";
  const client = await openRedis(config.redisUrl, {
    timeoutMs: config.redisTimeoutMs,
    minReplicas: config.minReplicasAck,
    password: config.redisPassword,
    ca: config.redisCa,
    sentinelPassword: config.redisSentinelPassword,
    observe,
    onError: (error) => {
      // While Redis is down every reconnect fails the same way; one log line is enough.
      if (error.message !== lastText) logger.error(errorFields(error), "Redis connection failed");
      lastText = error.message;
    },
    onReady: () => {
      lastText = "";
      logger.info("Redis connection is ready");
      onReady();
    },
  });
  if (!client.nodes.isReady()) {
    const nodes = client.nodes.masters().filter((node) => !node.isReady());
    logger.warn(
      { nodes: nodes.map(({ name }) => name) },
      "started without some shards of Redis: calls to what they hold fail until they answer",
    );
  }
  return client;
}

/** What the RPCs act on, by one client: a call that is traced has its own, whose client tells of the round trips. */
export function openStores(
  client: StoreClient,
  { cipher, audit, apiTokens }: { cipher: TokenCipher; audit: Audit; apiTokens: ApiTokenStore },
) {
  const environments = redisEnvironments(client, audit);
  return {
    userGroups: redisUserGroups({ client, cipher, audit }),
    environments,
    environmentDeletion: redisEnvironmentDeletion({ client, audit, environments, apiTokens }),
    apiTokens,
    userGroupAdmin: redisUserGroupAdmin({ client, cipher, audit }),
    auditTrail: redisAuditTrail(client, audit),
    tokenKeys: new RedisTokenKeys({ client, cipher, audit, environments }),
  } satisfies Stores;
}

/** How often a warning of dropped audit events is repeated for an environment, in milliseconds. */
const DROPPED_INTERVAL_MS = 3_600_000;

/** Opens the writer of audit events, and counts and logs what it drops. */
export function openAudit(
  { auditRetentionMs, auditMaxEvents }: Config,
  { logger, metrics }: Pick<StoreObservers, "logger" | "metrics">,
): Audit {
  const warnedAt = new Map<string, number>();
  return new Audit(auditRetentionMs, {
    maxUpdates: auditMaxEvents,
    onDropped(name, count) {
      metrics.auditDropped.inc(count);
      const environment = formatEnvironmentName(name);
      const now = performance.now();
      if (now - (warnedAt.get(environment) ?? Number.NEGATIVE_INFINITY) < DROPPED_INTERVAL_MS) return;
      warnedAt.set(environment, now);
      logger.warn(
        { environment },
        "the audit trail drops updates before AUDIT_RETENTION is over, because there are more than AUDIT_MAX_EVENTS; raise it, or set RATE_LIMIT",
      );
    },
  });
}

/**
 * Opens the rate limiters that are set.
 *
 * @param client undefined for the embedded store
 */
export function openRateLimiters(
  { rateLimit, authFailureLimit }: Config,
  { client, metrics }: { client: StoreClient | undefined; metrics: Metrics },
): RateLimiters {
  const limiterOf = (kind: RateLimitName, limit: RateLimit) =>
    new RateLimiter({ limit, counter: client && rateCounter(client, { kind, limit }) });
  return {
    tokens: rateLimit && limiterOf("api-token", rateLimit),
    failures: authFailureLimit && limiterOf("address", authFailureLimit),
    onLimited: (name) => metrics.limited.inc({ limit: name }),
  };
}
