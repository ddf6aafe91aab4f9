import { createSecureContext } from "node:tls";
import { readRedisUrl } from "@user-group-service/redis";
import { distance } from "fastest-levenshtein";
import * as parse from "./parse.ts";

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

const { DAY_MS, duration, integer, optional } = parse;

/**
 * Every setting: its default as text, what it is, the field of the configuration that it becomes, and by what. Fields that
 * end in `Ms` are in milliseconds. A setting that ends in `_FILE` names a file; its field has the content of that file.
 */
export const SETTINGS = {
  HOST: ["127.0.0.1", "address to listen on", "host", parse.host],
  PORT: ["8080", "port to listen on; 0 picks a free one", "port", integer(0, 65_535)],
  WORKERS: ["1", "how many processes share the port", "workers", integer(1, 256)],
  REDIS_URL: ["", "Redis, Sentinels or a Cluster; unset: an embedded store, in memory", "redisUrl", optional(String)],
  REDIS_PASSWORD_FILE: ["", "file with Redis' password", "redisPassword", optional(parse.password)],
  // In PEM; undefined: those that the runtime trusts.
  REDIS_CA_FILE: ["", "authorities of Redis' certificates, in PEM", "redisCa", optional(parse.authorities)],
  REDIS_SENTINEL_PASSWORD: ["", "password of the Sentinels", "redisSentinelPassword", optional(parse.password)],
  REDIS_SENTINEL_PASSWORD_FILE: ["", "file with it", "redisSentinelPassword", optional(parse.password)],
  TOKEN_KEYS: ["", "keys that encrypt tokens: ID:BASE64,...", "tokenKeys", parse.tokenKeys],
  TOKEN_KEYS_FILE: ["", "file with them, on a line each", "tokenKeys", parse.tokenKeys],
  API_TOKENS: ["", "static API tokens: ENV=TOKEN,NAME@ENV/Customer=TOKEN,...", "apiTokens", parse.apiTokens],
  API_TOKENS_FILE: ["", "file with them, on a line each", "apiTokens", parse.apiTokens],
  // None, one, or two while one takes the place of the other.
  ADMIN_TOKEN: ["", "root's token, or two, for AdminService alone", "adminTokens", parse.adminTokens],
  ADMIN_TOKEN_FILE: ["", "file with it, or with two on a line each", "adminTokens", parse.adminTokens],
  ROTATION_GRACE: ["0s", "how long a rotated token stays valid", "rotationGraceMs", duration(0, 30 * DAY_MS)],
  // 0: never.
  API_TOKEN_CACHE: ["5s", "how long an issued API token may be cached", "apiTokenCacheMs", duration(0, DAY_MS)],
  AUDIT_RETENTION: ["90d", "how long audit events are kept", "auditRetentionMs", duration(1000, 3660 * DAY_MS)],
  AUDIT_MAX_EVENTS: [
    "10000000",
    "how many updates the audit trail of an environment keeps",
    "auditMaxEvents",
    integer(1000, 1_000_000_000),
  ],
  MIN_REPLICAS_ACK: [
    "0",
    "how many replicas of Redis have a change before it is acknowledged",
    "minReplicasAck",
    integer(0, 100),
  ],
  // Undefined: health and metrics share the main port.
  METRICS_PORT: ["", "a separate port for health and metrics", "metricsPort", optional(integer(0, 65_535))],
  REFLECTION: ["on", "server reflection, on or off", "reflection", parse.onOff],
  DOCS: ["on", "/openapi.json and the page /docs/, on or off", "docs", parse.onOff],
  // Undefined: on beside the embedded store alone.
  CONSOLE: ["", "the page /console/, on or off; unset: on with the embedded store", "console", optional(parse.onOff)],
  LEGACY_PATHS: ["off", "the paths of the hosted service, on or off", "legacyPaths", parse.onOff],
  MAX_CONNECTIONS: ["4096", "how many connections a worker keeps open", "maxConnections", integer(1, 1_000_000)],
  RATE_LIMIT: ["off", "how often the bearer of an API token may call, such as 1000/10s", "rateLimit", parse.rateLimit],
  AUTH_FAILURE_LIMIT: ["60/1m", "how often an address may fail to authenticate", "authFailureLimit", parse.rateLimit],
  // Undefined: where it listens, if that is a loopback address; otherwise there are no viewer sessions.
  PUBLIC_URL: [
    "",
    "URL that viewer sessions are issued under, and their keys found at, such as https://groups.example.com",
    "publicUrl",
    optional(parse.publicUrl),
  ],
  VIEWER_SESSION_MAX: ["1h", "how long a viewer session may last", "viewerSessionMaxMs", duration(60_000, 3_600_000)],
  TRUSTED_PROXIES: [
    "",
    "proxies whose X-Forwarded-For is believed: addresses and networks",
    "trustedProxies",
    parse.networks,
  ],
  CORS_ORIGINS: ["", "origins whose pages may call, or *", "corsOrigins", parse.origins],
  TLS_CERT_FILE: ["", "certificate in PEM; with it the port speaks TLS", "tlsCert", optional(parse.certificate)],
  TLS_KEY_FILE: ["", "its private key in PEM", "tlsKey", optional(parse.privateKey)],
  TLS_CLIENT_CA_FILE: [
    "",
    "authorities that clients' certificates must be of, in PEM",
    "tlsClientCa",
    optional(parse.authorities),
  ],
  LOG_LEVEL: ["info", "trace, debug, info, warn, error, fatal or silent", "logLevel", parse.logLevel],
  SHUTDOWN_TIMEOUT: ["10s", "how long a shutdown waits for calls in flight", "shutdownTimeoutMs", duration(0, DAY_MS)],
  SHUTDOWN_DELAY: [
    "0s",
    "how long a shutdown goes on as before but for `/readyz`, so that proxies send no more",
    "shutdownDelayMs",
    duration(0, DAY_MS),
  ],
  REDIS_TIMEOUT: ["1s", "how long Redis may take for a call", "redisTimeoutMs", duration(10, 60_000)],
  // Traces, by the names that OpenTelemetry gives its settings. Without a collector there are none.
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    "",
    "collector that gets traces by OTLP over HTTP, such as http://127.0.0.1:4318",
    "otlpEndpoint",
    optional(parse.httpUrl),
  ],
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: [
    "",
    "its URL with the whole path",
    "otlpTracesEndpoint",
    optional(parse.httpUrl),
  ],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    "http/protobuf",
    "the one protocol to the collector",
    "otlpProtocol",
    parse.otlpProtocol,
  ],
  OTEL_EXPORTER_OTLP_HEADERS: ["", "headers for the collector: NAME=VALUE,...", "otlpHeaders", parse.headers],
  OTEL_EXPORTER_OTLP_CERTIFICATE: [
    "",
    "file of authorities that the collector's certificate must be of, in PEM",
    "otlpCa",
    optional(parse.authorities),
  ],
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: [
    "",
    "file of a certificate for the collector to see, in PEM",
    "otlpCert",
    optional(parse.certificate),
  ],
  OTEL_EXPORTER_OTLP_CLIENT_KEY: ["", "file of its private key in PEM", "otlpKey", optional(parse.privateKey)],
  OTEL_SERVICE_NAME: [
    "",
    "what traces call the service; unset: user-group-service",
    "serviceName",
    optional(parse.serviceName),
  ],
  OTEL_RESOURCE_ATTRIBUTES: ["", "what else traces say of it: NAME=VALUE,...", "resourceAttributes", parse.pairs],
  OTEL_TRACES_SAMPLER: ["parentbased_always_on", "which calls are traced", "tracesSampler", parse.sampler],
  OTEL_TRACES_SAMPLER_ARG: ["1", "the share of them for a sampler by ratio, 0 to 1", "tracesRatio", parse.ratio],
} as const satisfies {
  readonly [name: string]: readonly [byDefault: string, words: string, field: string, parse: (text: string) => unknown];
};

/** The name of a setting. */
export type Setting = keyof typeof SETTINGS;

/** The name of a setting that names a file. OpenTelemetry's do not end in `_FILE`. */
export type FileSetting = Extract<Setting, `${string}_FILE` | `${string}_CERTIFICATE` | `${string}_CLIENT_KEY`>;

/** A file that a setting names, and the text that it held when the settings were read. */
export interface SettingFile {
  readonly setting: FileSetting;
  readonly path: string;
  readonly text: string;
}

type Values = { readonly [Name in Setting as (typeof SETTINGS)[Name][2]]: ReturnType<(typeof SETTINGS)[Name][3]> };

/** Certificates in PEM. */
interface TlsConfig {
  readonly cert: string;
  readonly key: string;
  /** The CAs of client certificates; undefined: clients need no certificate. */
  readonly clientCa: string | undefined;
}

/** All settings, validated. */
export interface Config extends Omit<Values, "tlsCert" | "tlsKey" | "tlsClientCa"> {
  readonly tls: TlsConfig | undefined;
  /** The files that settings name. */
  readonly files: readonly SettingFile[];
  /** The same settings, where these files hold other texts. @throws ConfigError */
  readonly withTexts: (texts: FileTexts) => Readonly<Config>;
  readonly misspelled: readonly Misspelled[];
}

/** What files of settings hold. */
export type FileTexts = { readonly [name in FileSetting]?: string };

/**
 * Reads the settings. An unset and an empty variable both mean the default.
 *
 * @param texts of files that have been read; the others are read
 * @throws ConfigError naming every fault
 */
export function loadConfig(environ: Environ, texts: FileTexts = {}): Readonly<Config> {
  const given = (name: Setting): string => environ[name] || SETTINGS[name][0];
  /** The settings whose values are in files. */
  const inFiles = new Set<Setting>();
  const files: SettingFile[] = [];
  const faults: string[] = [];
  const wrong = new Set<Setting>();
  const read: { [field: string]: unknown } = {};
  for (const [name, [, , field, parser]] of Object.entries(SETTINGS) as [Setting, (typeof SETTINGS)[Setting]][]) {
    try {
      if (!isFile(name)) {
        read[field] = parser(given(name));
        continue;
      }
      const path = given(name);
      const direct = name.slice(0, -"_FILE".length) as Setting;
      if (path === "" && direct in SETTINGS) continue;
      if (path !== "" && direct in SETTINGS) {
        if (given(direct) !== "") throw new parse.SettingError(`is set beside ${direct}: unset one of them`);
        inFiles.add(direct);
      }
      const text = path === "" ? "" : (texts[name] ?? parse.fileText(path));
      if (path !== "") files.push({ setting: name, path, text });
      read[field] = parser(path === "" ? "" : parse.fileValue(text));
    } catch (error) {
      if (!(error instanceof parse.SettingError)) throw error;
      wrong.add(name);
      faults.push(...error.faults.map((fault) => `${name} ${fault}`));
    }
  }
  const { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa, ...others } = read as Partial<Values>;
  const areRight = (...names: Setting[]) => names.every((name) => !wrong.has(name));
  const url = given("REDIS_URL");
  // Its password may be in a file.
  const redis = url === "" ? undefined : readRedisUrl(url, { password: others.redisPassword });
  if (redis && "faults" in redis) {
    wrong.add("REDIS_URL");
    faults.push(...redis.faults.map((fault) => `REDIS_URL ${fault}`));
  }
  const redisPassword = redis && "target" in redis ? redis.target.secrets.password : undefined;
  const areTlsFilesRight = areRight("TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE");
  const tls = areTlsFilesRight && cert !== undefined && key !== undefined ? { cert, key, clientCa } : undefined;
  const tlsFault = tls && faultOf(tls);
  const { otlpCa, otlpCert, otlpKey, otlpEndpoint, otlpTracesEndpoint = otlpEndpoint } = others;
  const areOtlpFilesRight = areRight("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY");
  // Settings that must fit each other. One that is wrong by itself cannot be checked against others.
  const rules: readonly (readonly [isBroken: boolean, fault: string])[] = [
    [
      areRight("REDIS_URL") && others.redisPassword !== undefined && redisPassword !== others.redisPassword,
      url === ""
        ? "REDIS_PASSWORD_FILE needs a REDIS_URL: the embedded store has no password"
        : "REDIS_PASSWORD_FILE is set beside a password in REDIS_URL: leave one of them out",
    ],
    [
      areRight("REDIS_URL") && others.redisCa !== undefined && !/^rediss/i.test(url),
      "REDIS_CA_FILE needs a REDIS_URL with TLS: rediss://, rediss-sentinel:// or rediss-cluster://",
    ],
    [
      areRight("REDIS_URL") && others.redisSentinelPassword !== undefined && !/^rediss?-sentinel:/i.test(url),
      `${inFiles.has("REDIS_SENTINEL_PASSWORD") ? "REDIS_SENTINEL_PASSWORD_FILE" : "REDIS_SENTINEL_PASSWORD"} needs a REDIS_URL that names Sentinels: redis-sentinel://`,
    ],
    [
      url !== "" && given("TOKEN_KEYS") === "" && given("TOKEN_KEYS_FILE") === "",
      'TOKEN_KEYS is missing: a real Redis needs keys to encrypt tokens with; make one with: echo "k1:$(openssl rand -base64 32)"',
    ],
    [
      url === "" && (others.workers ?? 1) > 1,
      "WORKERS above 1 need a real Redis to share: set REDIS_URL; every worker would have an embedded store of its own",
    ],
    [
      url === "" && (others.minReplicasAck ?? 0) > 0,
      "MIN_REPLICAS_ACK needs a real Redis with replicas: set REDIS_URL, or leave it 0 for the embedded store",
    ],
    [
      given("METRICS_PORT") === given("PORT") && given("PORT") !== "0",
      "METRICS_PORT must be another port than PORT; unset it to serve health and metrics there",
    ],
    [
      others.apiTokens?.some(({ token }) => others.adminTokens?.includes(token)) ?? false,
      "ADMIN_TOKEN must not be one of API_TOKENS: a token is either root's or bound to one environment",
    ],
    [
      areTlsFilesRight && clientCa !== undefined && cert === undefined && key === undefined,
      "TLS_CLIENT_CA_FILE needs TLS_CERT_FILE and TLS_KEY_FILE: without TLS no client is asked for a certificate",
    ],
    [
      areTlsFilesRight && (cert === undefined) !== (key === undefined),
      `${cert === undefined ? "TLS_CERT_FILE" : "TLS_KEY_FILE"} is missing: a certificate and its key go together`,
    ],
    [tlsFault !== undefined, tlsFault ?? ""],
    [
      areOtlpFilesRight && (otlpCert === undefined) !== (otlpKey === undefined),
      `OTEL_EXPORTER_OTLP_CLIENT_${otlpCert === undefined ? "CERTIFICATE" : "KEY"} is missing: a certificate and its key go together`,
    ],
    [
      otlpCert !== undefined && otlpKey !== undefined && !parse.isKeyOf(otlpCert, otlpKey),
      "OTEL_EXPORTER_OTLP_CLIENT_KEY is not the key of the certificate in OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    ],
    [
      /^http:/i.test(otlpTracesEndpoint ?? "") && (otlpCa ?? otlpCert) !== undefined,
      `OTEL_EXPORTER_OTLP_${otlpCa === undefined ? "CLIENT_" : ""}CERTIFICATE needs a collector with TLS: https:// in its endpoint`,
    ],
  ];
  faults.push(...rules.flatMap(([isBroken, fault]) => (isBroken ? [fault] : [])));
  const misspelled = misspelledIn(environ);
  if (faults.length > 0) throw new ConfigError(faults, misspelled);
  const withTexts = (others: FileTexts) => loadConfig(environ, { ...textsOf(files), ...others });
  return Object.freeze({ ...(others as Values), tls, files, withTexts, misspelled });
}

function isFile(name: Setting): name is FileSetting {
  return /_(?:FILE|CERTIFICATE|CLIENT_KEY)$/.test(name);
}

function textsOf(files: readonly SettingFile[]): FileTexts {
  return Object.fromEntries(files.map(({ setting, text }) => [setting, text]));
}

/** What a TLS server would refuse, or what one of the runtimes would silently ignore. */
function faultOf({ cert, key, clientCa }: TlsConfig): string | undefined {
  if (!parse.isKeyOf(cert, key)) return "TLS_KEY_FILE is not the key of the certificate in TLS_CERT_FILE";
  try {
    createSecureContext({ cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) });
    return undefined;
  } catch (error) {
    return `TLS_CERT_FILE and TLS_KEY_FILE cannot be used: ${(error as { code?: string }).code ?? "unknown error"}`;
  }
}

/**
 * Finds variables that look like settings. The environment is full of others' names, so these are only those that differ
 * in case or underscores, in few letters of a long name, or by `_FILE` at the end.
 */
function misspelledIn(environ: Environ): Misspelled[] {
  const settings = Object.keys(SETTINGS) as Setting[];
  return Object.keys(environ).flatMap((name) => {
    if (!environ[name] || Object.hasOwn(SETTINGS, name) || isExample(name, environ[name])) return [];
    // OpenTelemetry has most of its settings once more for traces alone; here they have one form each.
    const letters = lettersOf(name).replace("OTLPTRACES", "OTLP");
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
  // None in short names, such as PORT: too many others differ in one letter. OpenTelemetry has settings that are much alike.
  const differing = ofSetting.startsWith("OTEL") ? 2 : Math.trunc(ofSetting.length / 4.5);
  return distance(letters, ofSetting) <= differing;
}

function lettersOf(name: string): string {
  return name.replaceAll("_", "").toUpperCase();
}
