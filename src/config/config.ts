import type { Network } from "../domain/client-address.ts";
import type { EnvironmentName } from "../domain/environment.ts";
import type { RateLimit } from "../domain/rate-limit.ts";
import type { RingKey } from "../store/encryption.ts";
import * as parse from "./parse.ts";
import { caFile, readTls } from "./tls.ts";

/** A token of `API_TOKENS`. */
export interface ApiTokenSetting {
  readonly environment: EnvironmentName;
  readonly token: string;
  /** What logs and the audit trail call it; undefined: it has no name. */
  readonly name?: string | undefined;
}

/** Certificates in PEM. */
export interface TlsConfig {
  readonly cert: string;
  readonly key: string;
  /** The CAs of client certificates; undefined: clients need no certificate. */
  readonly clientCa: string | undefined;
}

/** All settings, validated. Durations are in milliseconds. */
export interface Config {
  readonly host: string;
  readonly port: number;
  /** How many worker processes share the port. */
  readonly workers: number;
  /** Undefined: use the embedded store. */
  readonly redisUrl: string | undefined;
  /** The CAs of Redis' certificates, in PEM; undefined: those that the runtime trusts. */
  readonly redisCa: string | undefined;
  /** Undefined: the Sentinels have none. */
  readonly redisSentinelPassword: string | undefined;
  readonly tokenKeys: readonly RingKey[];
  readonly apiTokens: readonly ApiTokenSetting[];
  /** The credentials of root, for AdminService alone: none, one, or two while one takes the place of the other. */
  readonly adminTokens: readonly string[];
  readonly rotationGraceMs: number;
  /** How long an issued API token may be cached, in milliseconds; 0: never. */
  readonly apiTokenCacheMs: number;
  /** How long audit events are kept, in milliseconds. */
  readonly auditRetentionMs: number;
  readonly minReplicasAck: number;
  /** A separate port for health and metrics over HTTP; undefined: they share the main port. */
  readonly metricsPort: number | undefined;
  /** Whether server reflection is served. */
  readonly reflection: boolean;
  /** How many connections a worker keeps open at once. */
  readonly maxConnections: number;
  /** How often the bearer of an API token may call; undefined: as often as it likes. */
  readonly rateLimit: RateLimit | undefined;
  /** How often a client may fail to authenticate; undefined: as often as it likes. */
  readonly authFailureLimit: RateLimit | undefined;
  /** Whose `X-Forwarded-For` names their clients. */
  readonly trustedProxies: readonly Network[];
  readonly corsOrigins: "*" | readonly string[];
  readonly tls: TlsConfig | undefined;
  readonly logLevel: parse.LogLevel;
  readonly shutdownTimeoutMs: number;
  readonly redisTimeoutMs: number;
}

/** Lists every fault of the settings. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(
      `the settings have ${faults.length === 1 ? "a fault" : "faults"}:\n${faults.map((fault) => `  ${fault}`).join("\n")}`,
    );
    this.faults = faults;
  }
}

/** The source of the settings: environment variables. */
export type Environ = { readonly [name: string]: string | undefined };

/** Every setting, with its default as text. */
export const DEFAULTS = {
  HOST: "127.0.0.1",
  PORT: "8080",
  WORKERS: "1",
  REDIS_URL: "",
  REDIS_CA_FILE: "",
  REDIS_SENTINEL_PASSWORD: "",
  TOKEN_KEYS: "",
  API_TOKENS: "",
  ADMIN_TOKEN: "",
  ROTATION_GRACE: "0s",
  API_TOKEN_CACHE: "5s",
  AUDIT_RETENTION: "90d",
  MIN_REPLICAS_ACK: "0",
  METRICS_PORT: "",
  REFLECTION: "on",
  MAX_CONNECTIONS: "4096",
  RATE_LIMIT: "off",
  AUTH_FAILURE_LIMIT: "60/1m",
  TRUSTED_PROXIES: "",
  CORS_ORIGINS: "",
  TLS_CERT_FILE: "",
  TLS_KEY_FILE: "",
  TLS_CLIENT_CA_FILE: "",
  LOG_LEVEL: "info",
  SHUTDOWN_TIMEOUT: "10s",
  REDIS_TIMEOUT: "1s",
} as const satisfies { readonly [name: string]: string };

/** The name of a setting. */
export type Setting = keyof typeof DEFAULTS;

/** Parses a setting with a parser that throws SettingError; returns `fallback` when it is empty or invalid. */
export type ReadSetting = <T>(name: Setting, parser: (text: string) => T, fallback: T) => T;

/**
 * Reads the settings. An unset and an empty variable both mean the default.
 *
 * @throws ConfigError naming every fault
 */
export function loadConfig(environ: Environ): Readonly<Config> {
  const faults: string[] = [];
  const given = (name: Setting): string => environ[name] || DEFAULTS[name];
  const read: ReadSetting = (name, parser, fallback) => {
    const text = given(name);
    if (text === "") return fallback;
    try {
      return parser(text);
    } catch (error) {
      if (!(error instanceof parse.SettingError)) throw error;
      faults.push(...error.faults.map((fault) => `${name} ${fault}`));
      return fallback;
    }
  };

  const givenUrl = given("REDIS_URL");
  const redisUrl = read("REDIS_URL", parse.redisUrl, undefined);
  const tokenKeys = read("TOKEN_KEYS", parse.tokenKeys, []);
  const workers = read("WORKERS", parse.integer(1, 256), 1);
  const minReplicasAck = read("MIN_REPLICAS_ACK", parse.integer(0, 100), 0);
  const redisSentinelPassword = read("REDIS_SENTINEL_PASSWORD", parse.password, undefined);
  const redisCa = read("REDIS_CA_FILE", caFile, undefined);
  // When the URL itself is at fault, the settings that go with it cannot be checked.
  const isUrlKnown = redisUrl !== undefined || givenUrl === "";
  if (isUrlKnown && redisCa !== undefined && !/^rediss/i.test(givenUrl)) {
    faults.push("REDIS_CA_FILE needs a REDIS_URL with TLS: rediss://, rediss-sentinel:// or rediss-cluster://");
  }
  if (isUrlKnown && redisSentinelPassword !== undefined && !/^rediss?-sentinel:/i.test(givenUrl)) {
    faults.push("REDIS_SENTINEL_PASSWORD needs a REDIS_URL that names Sentinels: redis-sentinel://");
  }
  if (givenUrl !== "" && given("TOKEN_KEYS") === "") {
    faults.push(
      'TOKEN_KEYS is missing: a real Redis needs keys to encrypt tokens with; make one with: echo "k1:$(openssl rand -base64 32)"',
    );
  }
  if (workers > 1 && "Deno" in globalThis) {
    faults.push("WORKERS above 1 need Node; on Deno run several services behind a proxy");
  }
  if (givenUrl === "" && workers > 1) {
    faults.push(
      "WORKERS above 1 need a real Redis to share: set REDIS_URL; every worker would have an embedded store of its own",
    );
  }
  if (givenUrl === "" && minReplicasAck > 0) {
    faults.push(
      "MIN_REPLICAS_ACK needs a real Redis with replicas: set REDIS_URL, or leave it 0 for the embedded store",
    );
  }

  if (given("METRICS_PORT") === given("PORT") && given("PORT") !== "0") {
    faults.push("METRICS_PORT must be another port than PORT; unset it to serve health and metrics there");
  }

  const apiTokens = read("API_TOKENS", parse.apiTokens, []);
  const adminTokens = read("ADMIN_TOKEN", parse.adminTokens, []);
  if (apiTokens.some(({ token }) => adminTokens.includes(token))) {
    faults.push("ADMIN_TOKEN must not be one of API_TOKENS: a token is either root's or bound to one environment");
  }

  const config: Config = {
    host: read("HOST", parse.host, DEFAULTS.HOST),
    port: read("PORT", parse.integer(0, 65_535), 0),
    workers,
    redisUrl,
    redisCa,
    redisSentinelPassword,
    tokenKeys,
    apiTokens,
    adminTokens,
    apiTokenCacheMs: read("API_TOKEN_CACHE", parse.duration(0, parse.DAY_MS), 0),
    rotationGraceMs: read("ROTATION_GRACE", parse.duration(0, 30 * parse.DAY_MS), 0),
    auditRetentionMs: read("AUDIT_RETENTION", parse.duration(1000, 3660 * parse.DAY_MS), 0),
    minReplicasAck,
    metricsPort: read("METRICS_PORT", parse.integer(0, 65_535), undefined),
    reflection: read("REFLECTION", parse.onOff, true),
    maxConnections: read("MAX_CONNECTIONS", parse.integer(1, 1_000_000), 1),
    rateLimit: read("RATE_LIMIT", parse.rateLimit, undefined),
    authFailureLimit: read("AUTH_FAILURE_LIMIT", parse.rateLimit, undefined),
    trustedProxies: read("TRUSTED_PROXIES", parse.networks, []),
    corsOrigins: read("CORS_ORIGINS", parse.origins, []),
    tls: readTls(read, faults),
    logLevel: read("LOG_LEVEL", parse.logLevel, "info"),
    shutdownTimeoutMs: read("SHUTDOWN_TIMEOUT", parse.duration(0, parse.DAY_MS), 0),
    redisTimeoutMs: read("REDIS_TIMEOUT", parse.duration(10, 60_000), 0),
  };
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.freeze(config);
}
