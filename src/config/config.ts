import { distance } from "fastest-levenshtein";
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
  /** How many updates of groups the audit trail of an environment keeps. */
  readonly auditMaxEvents: number;
  readonly minReplicasAck: number;
  /** A separate port for health and metrics over HTTP; undefined: they share the main port. */
  readonly metricsPort: number | undefined;
  /** The files that settings name. */
  readonly files: readonly string[];
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
  readonly misspelled: readonly Misspelled[];
}

/** A variable of the environment that looks like a setting and is none. */
export interface Misspelled {
  readonly name: string;
  /** The setting that it looks like. */
  readonly setting: Setting;
}

/** Lists every fault of the settings. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly faults: readonly string[];
  /** @param misspelled may be why */
  constructor(faults: readonly string[], misspelled: readonly Misspelled[] = []) {
    const hints = misspelled.map(({ name, setting }) => `${name} is set, but is no setting: is ${setting} meant?`);
    const lines = [...faults, ...hints].map((line) => `\n  ${line}`);
    super(`the settings have ${faults.length === 1 ? "a fault" : "faults"}:${lines.join("")}`);
    this.faults = faults;
  }
}

/** The source of the settings: environment variables. */
export type Environ = { readonly [name: string]: string | undefined };

/** Every setting: its default as text, and what it is. */
export const SETTINGS = {
  HOST: ["127.0.0.1", "address to listen on"],
  PORT: ["8080", "port to listen on; 0 picks a free one"],
  WORKERS: ["1", "how many processes share the port"],
  REDIS_URL: ["", "Redis, Sentinels or a Cluster; unset: an embedded store, in memory"],
  REDIS_CA_FILE: ["", "authorities of Redis' certificates, in PEM"],
  REDIS_SENTINEL_PASSWORD: ["", "password of the Sentinels"],
  TOKEN_KEYS: ["", "keys that encrypt tokens: ID:BASE64,..."],
  API_TOKENS: ["", "static API tokens: ENV=TOKEN,NAME@ENV/Customer=TOKEN,..."],
  ADMIN_TOKEN: ["", "root's token, or two, for AdminService alone"],
  ROTATION_GRACE: ["0s", "how long a rotated token stays valid"],
  API_TOKEN_CACHE: ["5s", "how long an issued API token may be cached"],
  AUDIT_RETENTION: ["90d", "how long audit events are kept"],
  AUDIT_MAX_EVENTS: ["10000000", "how many updates the audit trail of an environment keeps"],
  MIN_REPLICAS_ACK: ["0", "how many replicas of Redis have a change before it is acknowledged"],
  METRICS_PORT: ["", "a separate port for health and metrics"],
  REFLECTION: ["on", "server reflection, on or off"],
  MAX_CONNECTIONS: ["4096", "how many connections a worker keeps open"],
  RATE_LIMIT: ["off", "how often the bearer of an API token may call, such as 1000/10s"],
  AUTH_FAILURE_LIMIT: ["60/1m", "how often an address may fail to authenticate"],
  TRUSTED_PROXIES: ["", "proxies whose X-Forwarded-For is believed: addresses and networks"],
  CORS_ORIGINS: ["", "origins whose pages may call, or *"],
  TLS_CERT_FILE: ["", "certificate in PEM; with it the port speaks TLS"],
  TLS_KEY_FILE: ["", "its private key in PEM"],
  TLS_CLIENT_CA_FILE: ["", "authorities that clients' certificates must be of, in PEM"],
  LOG_LEVEL: ["info", "trace, debug, info, warn, error, fatal or silent"],
  SHUTDOWN_TIMEOUT: ["10s", "how long a shutdown waits for calls in flight"],
  REDIS_TIMEOUT: ["1s", "how long Redis may take for a call"],
} as const satisfies { readonly [name: string]: readonly [byDefault: string, words: string] };

/** The name of a setting. */
export type Setting = keyof typeof SETTINGS;

/** Parses a setting with a parser that throws SettingError; returns `fallback` when it is empty or invalid. */
export type ReadSetting = <T>(name: Setting, parser: (text: string) => T, fallback: T) => T;

const FILES = (Object.keys(SETTINGS) as Setting[]).filter((name) => name.endsWith("_FILE"));

/**
 * Reads the settings. An unset and an empty variable both mean the default.
 *
 * @throws ConfigError naming every fault
 */
export function loadConfig(environ: Environ): Readonly<Config> {
  const faults: string[] = [];
  const given = (name: Setting): string => environ[name] || SETTINGS[name][0];
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
    host: read("HOST", parse.host, SETTINGS.HOST[0]),
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
    auditMaxEvents: read("AUDIT_MAX_EVENTS", parse.integer(1000, 1_000_000_000), 1000),
    minReplicasAck,
    files: FILES.map(given).filter((name) => name !== ""),
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
    misspelled: misspelledIn(environ),
  };
  if (faults.length > 0) throw new ConfigError(faults, config.misspelled);
  return Object.freeze(config);
}

/**
 * Finds variables that look like settings. The environment is full of others' names, so these are only those that differ
 * in case or underscores, in few letters of a long name, or by `_FILE` at the end.
 */
function misspelledIn(environ: Environ): Misspelled[] {
  const settings = Object.keys(SETTINGS) as Setting[];
  return Object.keys(environ).flatMap((name) => {
    if (!environ[name] || Object.hasOwn(SETTINGS, name) || isExample(name, environ[name])) return [];
    const letters = lettersOf(name);
    const setting = settings.find((each) => isMisspelling(letters, lettersOf(each)));
    return setting === undefined ? [] : [{ name, setting }];
  });
}

/** The README's examples read an API token from `API_TOKEN`. Only with an environment in it is `API_TOKENS` meant. */
function isExample(name: string, value: string): boolean {
  return name === "API_TOKEN" && !/^[\w./@-]+=[^=]/.test(value);
}

function isMisspelling(letters: string, ofSetting: string): boolean {
  if (letters === ofSetting || `${letters}FILE` === ofSetting) return true;
  // None in short names, such as PORT: too many others differ in one letter.
  return distance(letters, ofSetting) <= Math.trunc(ofSetting.length / 4.5);
}

function lettersOf(name: string): string {
  return name.replaceAll("_", "").toUpperCase();
}
