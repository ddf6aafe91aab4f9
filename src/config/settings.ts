import { MAX_STORE_CALL_MS } from "../domain/store.ts";
import * as parse from "./parse.ts";

const { DAY_MS, duration, integer, optional } = parse;

/**
 * Every setting: the field of the configuration that it becomes and by what, what it is, in Markdown, and its default as
 * text, where it has one. Fields that end in `Ms` are in milliseconds. A setting that ends in `_FILE` names a file; its field
 * has the content of that file. `npm run generate` writes the table of the README and the names in `deno.json` from it.
 */
export const SETTINGS = {
  HOST: ["host", parse.host, "address to listen on", "127.0.0.1"],
  PORT: ["port", integer(0, 65_535), "port to listen on; `0` picks a free one", "8080"],
  WORKERS: [
    "workers",
    integer(1, 256),
    "how many processes share the port, each on a core of its own; more than 1 needs a real Redis, and on Deno [a permission](docs/operations/install.md#deno). A process that crashes is restarted",
    "1",
  ],
  REDIS_URL: [
    "redisUrl",
    optional(String),
    "one node: `redis://USER:PASSWORD@HOST:PORT/DB`; Sentinels: `redis-sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/DB#MASTER`; a Cluster: `redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT`; each with `rediss` for TLS, without a query; write special characters of a password as `%XX`, and IPv6 addresses in brackets; unset means the embedded store",
  ],
  REDIS_PASSWORD_FILE: [
    "redisPassword",
    optional(parse.password),
    "a file with the password, which `REDIS_URL` then leaves out: `redis://USER@HOST:PORT/DB`",
  ],
  // In PEM; undefined: those that the runtime trusts.
  REDIS_CA_FILE: [
    "redisCa",
    optional(parse.authorities),
    "with TLS to Redis: the authorities that the certificates of nodes and Sentinels must be of, in PEM; none means those that the runtime trusts",
  ],
  REDIS_SENTINEL_PASSWORD: [
    "redisSentinelPassword",
    optional(parse.password),
    "the password of the Sentinels themselves",
  ],
  REDIS_SENTINEL_PASSWORD_FILE: ["redisSentinelPassword", optional(parse.password), "a file with it"],
  TOKEN_KEYS: [
    "tokenKeys",
    parse.tokenKeys,
    "`ID:BASE64,...`: keys of 32 bytes that encrypt tokens; the first encrypts, all decrypt. A real Redis needs them. Redis keeps a check value of each key that has encrypted tokens; the service does not start with keys that do not match",
  ],
  TOKEN_KEYS_FILE: ["tokenKeys", parse.tokenKeys, "a file with them, a line each, in place of `TOKEN_KEYS`"],
  API_TOKENS: [
    "apiTokens",
    parse.apiTokens,
    "`ENV=TOKEN,NAME@ENV/Customer=TOKEN,NAME@ENV/Testing=TOKEN`: API tokens of 16 characters or more, of role `manage`. NAME is what logs and the audit trail call the token (`static-NAME`). Missing environments are created",
  ],
  API_TOKENS_FILE: ["apiTokens", parse.apiTokens, "a file with them, a line each, or `none`, in place of `API_TOKENS`"],
  // None, one, or two: while one replaces the other, both are valid.
  ADMIN_TOKEN: [
    "adminTokens",
    parse.adminTokens,
    "root: may call AdminService for every environment, and nothing else; 16 characters or more. Two, separated by a comma, while one replaces the other",
  ],
  ADMIN_TOKEN_FILE: [
    "adminTokens",
    parse.adminTokens,
    "a file with it, or with two, a line each, or `none`, in place of `ADMIN_TOKEN`",
  ],
  ROTATION_GRACE: [
    "rotationGraceMs",
    duration(0, 30 * DAY_MS),
    "how long a rotated token stays valid when the request does not say; up to `30d`",
    "0s",
  ],
  // 0: never.
  API_TOKEN_CACHE: [
    "apiTokenCacheMs",
    duration(0, DAY_MS),
    "for how long a worker believes what it read of an issued API token, also while Redis is away; `0s`: every call reads it, in two more round trips; up to `24h`. Revocations reach all workers at once; if Redis does not let its user subscribe, they and changes of signing keys take up to this time",
    "5s",
  ],
  AUDIT_RETENTION: [
    "auditRetentionMs",
    duration(1000, 3660 * DAY_MS),
    "for how long audit events are kept, from `1s` to `3660d`",
    "90d",
  ],
  AUDIT_MAX_EVENTS: [
    "auditMaxEvents",
    integer(1000, 1_000_000_000),
    "how many updates of groups the audit trail of an environment keeps of a day; more push out the oldest updates of the day, and never an event of another kind. An event takes about 185 bytes, so the default takes 1.7 GB at most in 90 days",
    "100000",
  ],
  MIN_REPLICAS_ACK: [
    "minReplicasAck",
    integer(0, 100),
    "a change is acknowledged only after this many Redis replicas have it",
    "0",
  ],
  // Undefined: health and metrics share the main port.
  METRICS_PORT: [
    "metricsPort",
    optional(integer(0, 65_535)),
    "a separate port for `/healthz`, `/readyz` and `/metrics`, which the main port then does not serve; `0` picks a free port",
  ],
  REFLECTION: ["reflection", parse.onOff, "`off`: no server reflection", "on"],
  DOCS: ["docs", parse.onOff, "`off`: neither `/openapi.json` nor the page `/docs/`", "on"],
  // Undefined: on with the embedded store, off with Redis.
  CONSOLE: [
    "console",
    optional(parse.onOff),
    "`on`: also serves [the console](docs/console.md), a page for operators, at `/console/`: on the main port, or on `METRICS_PORT` where that is set, with the RPCs that it calls. Unset: on with the embedded store, off with a real Redis",
  ],
  LEGACY_PATHS: [
    "legacyPaths",
    parse.onOff,
    "`on`: also serves the paths of the hosted service, such as `/api/create_customer/`, for [clients that cannot be changed](docs/legacy-paths.md)",
    "off",
  ],
  MAX_CONNECTIONS: [
    "maxConnections",
    integer(1, 1_000_000),
    "how many connections a worker keeps open at once; a further one closes idle connections, or is closed itself when none is idle",
    "4096",
  ],
  RATE_LIMIT: [
    "rateLimit",
    parse.rateLimit,
    "how often the bearer of an API token may call, such as `1000/10s`: further calls in the 10 seconds are refused with 429. All workers count together. Root is not limited",
    "off",
  ],
  AUTH_FAILURE_LIMIT: [
    "authFailureLimit",
    parse.rateLimit,
    "how often calls from one address, or one IPv6 network of 64 bits, may fail to authenticate; then those that fail get 429, and cost nothing. A good API token that the worker has seen is not concerned; one that it has not seen may be told to try again in a second. `off`: as often as they like",
    "60/1m",
  ],
  // Undefined: where it listens, if that is a loopback address; otherwise there are no viewer sessions.
  PUBLIC_URL: [
    "publicUrl",
    optional(parse.publicUrl),
    "URL that the service is reached at, such as `https://groups.example.com`: viewer sessions are issued under it, and their keys are found at it. Unset: where it listens, if `HOST` is a loopback address; otherwise viewer sessions are refused",
  ],
  VIEWER_SESSION_MAX: [
    "viewerSessionMaxMs",
    duration(60_000, 3_600_000),
    "how long a viewer session may last, from `1m` to `1h`",
    "1h",
  ],
  TRUSTED_PROXIES: [
    "trustedProxies",
    parse.networks,
    "comma list of addresses and networks, such as `10.0.0.0/8,fd00::/8`: proxies whose `X-Forwarded-For` names the address that failures are counted for, and that audit events have. Without it, callers behind a proxy count as one address",
  ],
  CORS_ORIGINS: [
    "corsOrigins",
    parse.origins,
    "comma list of origins whose pages may call over Connect and gRPC-Web, or `*`",
  ],
  TLS_CERT_FILE: ["tlsCert", optional(parse.certificate), "certificate in PEM; with it the port only speaks TLS"],
  TLS_KEY_FILE: ["tlsKey", optional(parse.privateKey), "its private key in PEM"],
  TLS_CLIENT_CA_FILE: [
    "tlsClientCa",
    optional(parse.authorities),
    "CA certificates in PEM; clients then need a certificate signed by one of them",
  ],
  LOG_LEVEL: ["logLevel", parse.logLevel, "`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`", "info"],
  SHUTDOWN_TIMEOUT: [
    "shutdownTimeoutMs",
    duration(0, DAY_MS),
    "on SIGTERM and SIGINT, how long to wait for calls in flight",
    "10s",
  ],
  SHUTDOWN_DELAY: [
    "shutdownDelayMs",
    duration(0, DAY_MS),
    "how long it first goes on as before but for `/readyz`, which answers 503, so that [proxies](docs/operations/upgrade.md#restart) send no more",
    "0s",
  ],
  REDIS_TIMEOUT: [
    "redisTimeoutMs",
    duration(10, MAX_STORE_CALL_MS),
    "when Redis takes longer, a call fails as unavailable, and its change is not made later",
    "1s",
  ],
  // Traces, by the names that OpenTelemetry gives its settings. OpenTelemetry reads them by itself. The fields of this service
  // are checked at the start, redacted in the log, or watched; the fields that are plain text are listed for their readers.
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    "otlpEndpoint",
    optional(parse.collectorUrl),
    "a collector that gets [traces](docs/operations/monitor.md#traces) by OTLP over HTTP, such as `http://127.0.0.1:4318`; unset: there are none",
  ],
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: [
    "otlpTracesEndpoint",
    optional(parse.collectorUrl),
    "the same, for a collector with another path than `/v1/traces` behind it: the whole URL",
  ],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    "otlpProtocol",
    parse.otlpProtocol,
    "the one that the service speaks; collectors take `grpc` on another port",
    "http/protobuf",
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [
    "otlpHeaders",
    parse.headers,
    "headers for the collector, such as `authorization=Bearer%20KEY,x-tenant=NAME`: spaces, commas and `%` as `%XX`",
  ],
  OTEL_EXPORTER_OTLP_CERTIFICATE: [
    "otlpCa",
    optional(parse.authorities),
    "a file of the authorities that the collector's certificate must be of, in PEM; none means those that the runtime trusts",
  ],
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: [
    "otlpCert",
    optional(parse.certificate),
    "a file of a certificate for a collector that asks for one, in PEM",
  ],
  OTEL_EXPORTER_OTLP_CLIENT_KEY: ["otlpKey", optional(parse.privateKey), "a file of its key, in PEM"],
  OTEL_SERVICE_NAME: ["serviceName", String, "name of the service in traces", "user-group-service"],
  OTEL_RESOURCE_ATTRIBUTES: [
    "resourceAttributes",
    String,
    "other attributes of the service in traces, such as `deployment.environment.name=prod,k8s.pod.name=a`; spaces, commas and `%` as `%XX`",
  ],
  OTEL_TRACES_SAMPLER: [
    "tracesSampler",
    String,
    "which calls are traced: `always_on`, `always_off` or `traceidratio`, or one of these behind `parentbased_` for calls whose callers say nothing",
    "parentbased_always_on",
  ],
  OTEL_TRACES_SAMPLER_ARG: [
    "tracesSamplerArg",
    String,
    "share of the calls that `traceidratio` samples, from 0 to 1",
    "1",
  ],
} as const satisfies { readonly [name: string]: Row };

type Row = readonly [field: string, parse: (text: string) => unknown, words: string, byDefault?: string];

/** The name of a setting. */
export type Setting = keyof typeof SETTINGS;

/** The default of a setting as text; empty: it has none. */
export function defaultOf(name: Setting): string {
  const [, , , byDefault = ""]: Row = SETTINGS[name];
  return byDefault;
}

/** The name of a setting that names a file. OpenTelemetry's do not end in `_FILE`. */
export type FileSetting = Extract<Setting, `${string}_FILE` | `${string}_CERTIFICATE` | `${string}_CLIENT_KEY`>;
