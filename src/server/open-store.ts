import { RateLimiter } from "../auth/rate-limiter.ts";
import type { Config } from "../config/config.ts";
import type { RevocationListener } from "../domain/api-token.ts";
import { HOUR_MS } from "../domain/durations.ts";
import { formatEnvironmentName } from "../domain/environment.ts";
import type { RateLimit } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { Metrics, RateLimitName } from "../observability/metrics.ts";
import { oncePer } from "../observability/once-per.ts";
import type { RateLimiters } from "../rpc/access.ts";
import { redisApiTokens } from "../store/api-tokens/api-tokens.ts";
import { Audit } from "../store/audit.ts";
import { redisAuditTrail } from "../store/audit-trail.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { openEmbedded } from "../store/connection/embedded/embedded.ts";
import { openRedis } from "../store/connection/open.ts";
import type { TokenCipher } from "../store/encryption.ts";
import { redisEnvironments } from "../store/environments.ts";
import { redisUserGroupAdmin } from "../store/groups/user-group-admin.ts";
import { redisUserGroups } from "../store/groups/user-groups.ts";
import { StoreIdentity } from "../store/identity.ts";
import { rateCounter } from "../store/rate-counter.ts";
import { RedisTokenKeys } from "../store/secret-keys/token-keys.ts";
import { redisWebhooks } from "../store/webhooks/webhooks.ts";
import { LAYOUT } from "./redis-state.ts";
import { isReporter } from "./worker.ts";

interface StoreObservers {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly onReady: () => void;
}

/**
 * The maximum time that a start waits for Redis, in milliseconds. After this time, the service listens even if Redis
 * has not answered.
 */
export const WAIT_MS = 2000;

/** Opens Redis or the embedded store, and logs the state of the connections to Redis. @throws StoreMisconfigured */
export async function openStore(config: Config, { logger, metrics, onReady }: StoreObservers) {
  const observe = metrics.observeStore.bind(metrics);
  if (!config.redis) {
    logger.warn(
      "REDIS_URL is not set: the embedded store keeps all data in memory and loses it when the process exits",
    );
    const client = await openEmbedded({ timeoutMs: config.redisTimeoutMs, observe });
    return { client, identity: undefined, opened: Promise.resolve() };
  }
  let lastError: Error | undefined;
  const logged = new Set<string>();
  // Until `WAIT_MS` has passed, do not log connection errors. If Redis has not answered by then, one log line reports
  // the last error.
  let isEarly = true;
  const { client, opened } = openRedis(config.redis, {
    data: { refusal: () => identity.refusal(), check: () => identity.check() },
    checkConnection: (redis) => identity.checkConnection(redis),
    timeoutMs: config.redisTimeoutMs,
    minReplicas: config.minReplicasAck,
    observe,
    onError: (error) => {
      lastError = error;
      // While Redis is down, each reconnect repeats the same error, so log each error once.
      if (isEarly || logged.has(error.message)) return;
      logged.add(error.message);
      logger.error(errorFields(error), "Redis connection failed");
    },
    onReady: () => {
      lastError = undefined;
      logged.clear();
      logger.info("Redis connection is ready");
      onReady();
    },
  });
  const timer = setTimeout(() => {
    isEarly = false;
    const why = lastError ? errorFields(lastError) : {};
    if (lastError) logged.add(lastError.message);
    if (isReporter())
      logger.error(why, "waiting for Redis: calls fail until Redis answers. Check REDIS_URL, and that Redis runs");
  }, WAIT_MS);
  const end = () => {
    clearTimeout(timer);
    isEarly = false;
  };
  opened.then(end, end);
  opened.then(() => warnOfAbsent(client, logger)).catch(() => {});
  const identity = new StoreIdentity({
    client: client.with({ data: undefined }),
    layout: LAYOUT,
    isCluster: config.redis.topology === "cluster",
    onChange: (fault) => {
      if (fault === undefined) {
        logger.info("Redis holds the data of this service");
        onReady();
      } else logger.error({ cause: fault }, REPLACED);
    },
  });
  return { client, identity, opened };
}

const REPLACED =
  "Redis does not contain the expected data, so changes are refused. Restore the data. If the data in Redis is correct, run ugs store accept, or restart the service";

function warnOfAbsent({ nodes }: StoreClient, logger: Logger): void {
  if (nodes.isReady()) return;
  const absent = nodes.masters().filter((node) => !node.isReady());
  logger.warn(
    { nodes: absent.map(({ name }) => name) },
    "started without some shards of Redis: calls to the environments on these shards fail until the shards answer",
  );
}

export function openStores(
  client: StoreClient,
  { cipher, audit, listener }: { cipher: TokenCipher; audit: Audit; listener: RevocationListener },
) {
  const environments = redisEnvironments({ client, audit, listener });
  return {
    userGroups: redisUserGroups({ client, cipher, audit }),
    environments,
    apiTokens: redisApiTokens({ client, listener, audit }),
    userGroupAdmin: redisUserGroupAdmin({ client, cipher, audit }),
    auditTrail: redisAuditTrail(client, audit),
    webhooks: redisWebhooks({ client, cipher, audit }),
    tokenKeys: new RedisTokenKeys({ client, cipher, audit, environments }),
  };
}

/** The minimum time between two warnings about removed audit events of the same environment, in milliseconds. */
const DROPPED_INTERVAL_MS = HOUR_MS;

/** Creates the audit trail. If AUDIT_MAX_EVENTS is exceeded, counts the removed events and logs a warning. */
export function openAudit(
  { auditRetentionMs, auditMaxEvents }: Config,
  { logger, metrics }: Pick<StoreObservers, "logger" | "metrics">,
): Audit {
  const isDue = oncePer(DROPPED_INTERVAL_MS);
  return new Audit(auditRetentionMs, {
    maxUpdates: auditMaxEvents,
    onDropped(name, count) {
      metrics.auditDropped.inc(count);
      const environment = formatEnvironmentName(name);
      if (!isDue(environment)) return;
      logger.warn(
        { environment },
        "the audit trail drops updates that are younger than AUDIT_RETENTION, because a day has more updates than AUDIT_MAX_EVENTS: increase AUDIT_MAX_EVENTS, or limit the calls with RATE_LIMIT",
      );
    },
  });
}

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
