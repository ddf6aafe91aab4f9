import type { IssuedTokens } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import { earliestExpiryOf } from "../config/parse.ts";
import { formatEnvironmentName } from "../domain/environment.ts";
import { sharedResult } from "../domain/shared-result.ts";
import { READY_KINDS } from "../domain/store.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { Readiness } from "../rpc/readiness.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { memoryOf, type NodeMemory } from "../store/connection/info.ts";
import type { TokenCipher } from "../store/encryption.ts";
import type { StoreIdentity } from "../store/identity.ts";

interface GaugeSources {
  readonly settings: () => Pick<Config, "metricsPort" | "redis" | "tls">;
  /** A Redis client with a short timeout, so that a call to Redis fails before the request of the monitor times out. */
  readonly client: StoreClient;
  /** Undefined if the service uses the embedded store. */
  readonly identity: Pick<StoreIdentity, "refusal"> | undefined;
  readonly cipher: Pick<TokenCipher, "ring">;
  readonly issued: Pick<IssuedTokens, "expiringFirst">;
  readonly readiness: Pick<Readiness, "is">;
}

/**
 * The time for which the memory usage of Redis is cached, in milliseconds. Clients may read the metrics often, and the
 * Redis command INFO is expensive.
 */
const MEMORY_KEPT_MS = 5000;

export function addGauges(
  metrics: Metrics,
  { settings, client, identity, cipher, issued, readiness }: GaugeSources,
): void {
  // Without METRICS_PORT, unauthenticated clients can read the metrics, so labels must contain no names.
  const isOpen = () => settings().metricsPort === undefined;
  metrics.gauge({
    name: "ugs_api_token_expire_time_seconds",
    help: "Earliest expiry time of the API tokens in use, per environment, in seconds since 1970",
    ofWorkers: "min",
    read() {
      const ending = issued.expiringFirst().map(({ id, environment, expireTime = 0 }) => ({
        labels: { environment: formatEnvironmentName(environment), api_token_id: id },
        value: expireTime / 1000,
      }));
      return isOpen() ? ending.slice(0, 1).map((first) => ({ ...first, labels: {} })) : ending;
    },
  });
  metrics.gauge({
    name: "ugs_token_key_workers",
    help: "Number of workers that have a key of TOKEN_KEYS. Label use: encrypt if the workers encrypt and decrypt with the key, decrypt if the workers only decrypt",
    ofWorkers: "sum",
    read: () =>
      cipher.ring.map(({ id }, i) => ({ labels: { key_id: id, use: i === 0 ? "encrypt" : "decrypt" }, value: 1 })),
  });
  // A file can contain hundreds of certificates, and each takes 0.2 ms to parse. So cache the result for each setting.
  const parsed = new Map<string, { readonly pem: string; readonly expireTime: number }>();
  const expireTimeOf = (setting: string, pem: string): number => {
    const known = parsed.get(setting);
    if (known?.pem === pem) return known.expireTime;
    const expireTime = earliestExpiryOf(pem);
    parsed.set(setting, { pem, expireTime });
    return expireTime;
  };
  metrics.gauge({
    name: "ugs_certificate_expire_time_seconds",
    help: "Earliest expiry time of the certificates in the file of a setting, in seconds since 1970",
    ofWorkers: "min",
    read() {
      const { tls, redis } = settings();
      const settingsInPem = [
        ["TLS_CERT_FILE", tls?.cert],
        ["TLS_CLIENT_CA_FILE", tls?.clientCa],
        ["REDIS_CA_FILE", redis?.secrets.ca],
      ] as const;
      return settingsInPem.flatMap(([setting, pem]) =>
        pem ? [{ labels: { setting }, value: expireTimeOf(setting, pem) / 1000 }] : [],
      );
    },
  });
  metrics.gauge({
    name: "ugs_redis_ready",
    help: "1 if every Redis node is connected, otherwise 0",
    ofWorkers: "min",
    read: () => [{ labels: {}, value: Number(client.nodes.isReady()) }],
  });
  metrics.gauge({
    name: "ugs_ready",
    help: "1 if Redis answers reads (kind reads) or accepts changes (kind changes), otherwise 0; the minimum of all workers",
    ofWorkers: "min",
    read: () =>
      Promise.all(READY_KINDS.map(async (kind) => ({ labels: { kind }, value: Number(await readiness.is(kind)) }))),
  });
  if (!identity) return;
  metrics.gauge({
    name: "ugs_redis_data_known",
    help: "1 if Redis has the expected data, otherwise 0; the minimum of all workers",
    ofWorkers: "min",
    read: () => [{ labels: {}, value: Number(identity.refusal() === undefined) }],
  });
  const memory = sharedResult(MEMORY_KEPT_MS, () => memoryOf(client));
  const memoryGauge = (name: string, help: string, bytes: (node: NodeMemory) => number) =>
    metrics.gauge({
      name,
      help,
      ofWorkers: "max",
      async read() {
        const nodes = await memory();
        if (!isOpen()) return nodes.map((node) => ({ labels: { node: node.name }, value: bytes(node) }));
        const [fullest] = [...nodes].sort((a, b) => b.usedBytes / b.maxBytes - a.usedBytes / a.maxBytes);
        return fullest ? [{ labels: {}, value: bytes(fullest) }] : [];
      },
    });
  memoryGauge(
    "ugs_redis_memory_used_bytes",
    "Memory that a Redis node uses; without METRICS_PORT, only the node that uses the largest share of its memory",
    ({ usedBytes }) => usedBytes,
  );
  memoryGauge(
    "ugs_redis_memory_max_bytes",
    "Memory limit of a Redis node: maxmemory, or the memory of the machine",
    ({ maxBytes }) => maxBytes,
  );
}
