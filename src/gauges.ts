import type { IssuedTokens } from "./auth/api-tokens.ts";
import type { Config } from "./config/config.ts";
import { firstEndOf } from "./config/parse.ts";
import { formatEnvironmentName } from "./domain/environment.ts";
import type { Metrics } from "./observability/metrics.ts";
import type { RingKey } from "./store/encryption/encryption.ts";
import type { StoreClient } from "./store/redis/client.ts";

/** What the gauges are read from. */
interface GaugeSources {
  /** Those that are in use. */
  readonly settings: () => Pick<Config, "metricsPort" | "redisCa" | "tls">;
  readonly client: StoreClient;
  readonly ring: () => readonly RingKey[];
  readonly issued: Pick<IssuedTokens, "endingFirst">;
}

/** Adds the gauges of what expires (API tokens, certificates), of the keys in use, and of the connections to Redis. */
export function addGauges(metrics: Metrics, { settings, client, ring, issued }: GaugeSources): void {
  metrics.gauge({
    name: "ugs_api_token_expire_time_seconds",
    help: "When the API token ends that ends first in its environment, of those that were issued and used, since 1970",
    ofWorkers: "min",
    read() {
      const ending = issued.endingFirst().map(({ id, environment, expireTime = 0 }) => ({
        labels: { environment: formatEnvironmentName(environment), api_token_id: id },
        value: expireTime / 1000,
      }));
      // Without a port of its own the page is open to strangers, who must not know the customers.
      const isOpen = settings().metricsPort === undefined;
      return isOpen ? ending.slice(0, 1).map((first) => ({ ...first, labels: {} })) : ending;
    },
  });
  metrics.gauge({
    name: "ugs_token_key_workers",
    help: "Processes that have a key of TOKEN_KEYS, by what they use it for: encrypt (and decrypt), or decrypt alone",
    ofWorkers: "sum",
    read: () => ring().map(({ id }, i) => ({ labels: { key_id: id, use: i === 0 ? "encrypt" : "decrypt" }, value: 1 })),
  });
  const ends = new Map<string, number>();
  const endOf = (pem: string) => {
    const end = ends.get(pem) ?? firstEndOf(pem);
    ends.set(pem, end);
    return end;
  };
  metrics.gauge({
    name: "ugs_certificate_expire_time_seconds",
    help: "When the first certificate in a file ends, by the setting that names the file, since 1970",
    ofWorkers: "min",
    read() {
      const { tls, redisCa } = settings();
      return [
        ["TLS_CERT_FILE", tls?.cert],
        ["TLS_CLIENT_CA_FILE", tls?.clientCa],
        ["REDIS_CA_FILE", redisCa],
      ].flatMap(([setting, pem]) => (pem ? [{ labels: { setting }, value: endOf(pem) / 1000 }] : []));
    },
  });
  metrics.gauge({
    name: "ugs_redis_ready",
    help: "Whether every node of Redis is connected: 1, or 0",
    ofWorkers: "min",
    read: () => [{ labels: {}, value: Number(client.nodes.isReady()) }],
  });
}
