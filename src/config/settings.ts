import { DAY_MS } from "../domain/durations.ts";
import { MAX_STORE_CALL_MS } from "../domain/store.ts";
import { MAX_SESSION_MS } from "../domain/viewer-session.ts";
import * as parse from "./parse.ts";

const { duration, integer, optional } = parse;

/**
 * All settings. An entry contains the name of the field in `Config`, the parser, the description in Markdown, and the
 * default as text. Fields that end in `Ms` are in milliseconds. If the name of a setting ends in `_FILE`, its value is
 * the path of a file, and the field contains the content of the file. From this table, `npm run generate` writes the
 * table of settings in the README and the names in `deno.json`.
 */
export const SETTINGS = {
  HOST: ["host", parse.host, "address to listen on", "127.0.0.1"],
  PORT: ["port", integer(0, 65_535), "port to listen on; `0` selects a free port", "8080"],
  WORKERS: [
    "workers",
    integer(1, 256),
    "number of processes that share the port. A value above 1 needs a real Redis. On Deno, it also needs [a permission](docs/operations/install.md#deno)",
    "1",
  ],
  REDIS_URL: [
    "redisUrl",
    optional(String),
    "one node: `redis://USER:PASSWORD@HOST:PORT/DB`; Sentinels: `redis-sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/DB#MASTER`; a Cluster: `redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT`. With TLS, the scheme starts with `rediss`. Write special characters of a password as `%XX`. If unset, the service uses the embedded store, which keeps all data in memory",
  ],
  REDIS_PASSWORD_FILE: [
    "redisPassword",
    optional(parse.password),
    "file with the Redis password. With this file, `REDIS_URL` must have no password: `redis://USER@HOST:PORT/DB`",
  ],
  REDIS_CA_FILE: [
    "redisCa",
    optional(parse.authorities),
    "CA certificates used to verify Redis and Sentinels, in PEM. Default: the CAs of the runtime",
  ],
  REDIS_SENTINEL_PASSWORD: ["redisSentinelPassword", optional(parse.password), "password of the Sentinels"],
  REDIS_SENTINEL_PASSWORD_FILE: [
    "redisSentinelPassword",
    optional(parse.password),
    "file with `REDIS_SENTINEL_PASSWORD`",
  ],
  TOKEN_KEYS: [
    "tokenKeys",
    parse.tokenKeys,
    "`ID:BASE64,...`: 32-byte keys. The service encrypts tokens with the first key, and decrypts tokens with all keys. Required with a real Redis",
  ],
  TOKEN_KEYS_FILE: ["tokenKeys", parse.tokenKeys, "file with `TOKEN_KEYS`, one key per line"],
  API_TOKENS: [
    "apiTokens",
    parse.apiTokens,
    "`ENV=TOKEN,NAME@ENV/Customer=TOKEN`: API tokens of at least 16 characters, with the role `manage`. The log and the audit trail show a token as `static-NAME`. The service creates missing environments",
  ],
  API_TOKENS_FILE: ["apiTokens", parse.apiTokens, "file with `API_TOKENS`, one token per line, or `none`"],
  ADMIN_TOKEN: [
    "adminTokens",
    parse.adminTokens,
    "token with the role root, of at least 16 characters. This token may call AdminService for every environment. To replace the token, set the old and the new token, separated by a comma",
  ],
  ADMIN_TOKEN_FILE: ["adminTokens", parse.adminTokens, "file with `ADMIN_TOKEN`, one token per line, or `none`"],
  ROTATION_GRACE: [
    "rotationGraceMs",
    duration(0, 30 * DAY_MS),
    "default grace period, in which the old token stays valid after a rotation, up to `30d`. A request can set another grace period",
    "0s",
  ],
  API_TOKEN_CACHE: [
    "apiTokenCacheMs",
    duration(0, DAY_MS),
    "how long a worker caches an API token that was created with AdminService, up to `24h`. Revocations reach all workers immediately. If the Redis user has no permission to subscribe, a worker may accept a revoked token until its cache entry expires. With `0s`, each call makes one more round trip to Redis",
    "5s",
  ],
  AUDIT_RETENTION: [
    "auditRetentionMs",
    duration(1000, 3660 * DAY_MS),
    "how long audit events are kept, from `1s` to `3660d`",
    "90d",
  ],
  AUDIT_MAX_EVENTS: [
    "auditMaxEvents",
    integer(1000, 1_000_000_000),
    "maximum number of group updates per environment and day in the audit trail. Further updates replace the oldest updates of the day",
    "100000",
  ],
  MIN_REPLICAS_ACK: [
    "minReplicasAck",
    integer(0, 100),
    "number of Redis replicas that must have a change before the service acknowledges the change",
    "0",
  ],
  METRICS_PORT: [
    "metricsPort",
    optional(integer(0, 65_535)),
    "separate port for `/healthz`, `/readyz` and `/metrics`. The main port then does not serve these paths",
  ],
  REFLECTION: ["reflection", parse.onOff, "`off` disables server reflection", "on"],
  DOCS: ["docs", parse.onOff, "`off` disables `/openapi.json` and the page `/docs/`", "on"],
  CONSOLE: [
    "console",
    optional(parse.onOff),
    "`on` serves [the console](docs/console.md) at `/console/`. If `METRICS_PORT` is set, only that port serves the console. Default: on with the embedded store, off with a real Redis",
  ],
  LEGACY_PATHS: [
    "legacyPaths",
    parse.onOff,
    "`on` serves the [paths of the hosted service](docs/legacy-paths.md), such as `/api/create_customer/`",
    "off",
  ],
  MAX_CONNECTIONS: [
    "maxConnections",
    integer(1, 1_000_000),
    "maximum number of open connections per worker. At the maximum, the service closes connections of the client with the [most connections](docs/security.md#limits-for-unauthenticated-clients)",
    "4096",
  ],
  RATE_LIMIT: [
    "rateLimit",
    parse.rateLimit,
    "maximum call rate per API token, such as `1000/10s` for 1000 calls in 10 seconds. Further calls get status 429. All workers share one count. `ADMIN_TOKEN` has no limit",
    "off",
  ],
  AUTH_FAILURE_LIMIT: [
    "authFailureLimit",
    parse.rateLimit,
    "maximum rate of failed authentications per client address (IPv6: per /64 network), or `off`. Further failures get status 429. Valid tokens are exempt",
    "60/1m",
  ],
  PUBLIC_URL: [
    "publicUrl",
    optional(parse.publicUrl),
    "public URL of the service, such as `https://groups.example.com`. This URL is the issuer (`iss`) of viewer sessions. If unset and `HOST` is a loopback address, the issuer is the URL on which the service listens. If unset and `HOST` is another address, the service creates no sessions",
  ],
  VIEWER_SESSION_MAX: [
    "viewerSessionMaxMs",
    duration(60_000, MAX_SESSION_MS),
    "maximum lifetime of a viewer session, from `1m` to `1h`",
    "1h",
  ],
  TRUSTED_PROXIES: [
    "trustedProxies",
    parse.networks,
    "comma-separated addresses and networks of trusted proxies, such as `10.0.0.0/8,fd00::/8`. The header `X-Forwarded-For` of a trusted proxy sets the client address. If unset, all callers behind a proxy share one address",
  ],
  WEBHOOK_ALLOW: [
    "webhookAllow",
    parse.networks,
    "comma-separated non-public addresses and networks that [webhooks](docs/webhooks.md) may reach, such as `10.20.0.0/16`. With `127.0.0.1`, webhooks may also use `http://localhost`",
  ],
  CORS_ORIGINS: [
    "corsOrigins",
    parse.origins,
    "comma-separated origins of pages that may call over Connect and gRPC-Web, or `*`",
  ],
  TLS_CERT_FILE: ["tlsCert", optional(parse.certificate), "certificate in PEM. If set, the port accepts only TLS"],
  TLS_KEY_FILE: ["tlsKey", optional(parse.privateKey), "private key of the certificate, in PEM"],
  TLS_CLIENT_CA_FILE: [
    "tlsClientCa",
    optional(parse.authorities),
    "CA certificates in PEM. If set, clients need a certificate of one of these CAs",
  ],
  LOG_LEVEL: ["logLevel", parse.logLevel, "`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`", "info"],
  SHUTDOWN_TIMEOUT: [
    "shutdownTimeoutMs",
    duration(0, DAY_MS),
    "how long a shutdown waits for calls in flight, after SIGTERM or SIGINT",
    "10s",
  ],
  SHUTDOWN_DELAY: [
    "shutdownDelayMs",
    duration(0, DAY_MS),
    "how long the service continues to accept calls after SIGTERM or SIGINT. During this time, `/readyz` returns 503, so that [proxies](docs/operations/upgrade.md#restart) stop sending calls",
    "0s",
  ],
  REDIS_TIMEOUT: [
    "redisTimeoutMs",
    duration(10, MAX_STORE_CALL_MS),
    "timeout of a Redis call. After this timeout, Redis never commits the change of the call",
    "1s",
  ],
  // OpenTelemetry itself reads these variables. They are in this table, so that the service validates them, the README
  // lists them, and Deno may read them.
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    "otlpEndpoint",
    optional(parse.collectorUrl),
    "OTLP/HTTP collector that receives [traces](docs/operations/monitor.md#traces), such as `http://127.0.0.1:4318`. If unset, tracing is off",
  ],
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: [
    "otlpTracesEndpoint",
    optional(parse.collectorUrl),
    "full URL of the collector, if its path is not `/v1/traces`",
  ],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    "otlpProtocol",
    parse.otlpProtocol,
    "must be `http/protobuf`. The service does not support `grpc`. Collectors usually receive the two protocols on different ports",
    "http/protobuf",
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [
    "otlpHeaders",
    parse.headers,
    "headers for the collector, such as `authorization=Bearer%20KEY,x-tenant=NAME`",
  ],
  OTEL_EXPORTER_OTLP_CERTIFICATE: [
    "otlpCa",
    optional(parse.authorities),
    "file with CA certificates used to verify the collector",
  ],
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: [
    "otlpCert",
    optional(parse.certificate),
    "file with a client certificate for the collector",
  ],
  OTEL_EXPORTER_OTLP_CLIENT_KEY: [
    "otlpKey",
    optional(parse.privateKey),
    "file with the private key of the client certificate",
  ],
  OTEL_SERVICE_NAME: ["serviceName", String, "name of the service in traces", "user-group-service"],
  OTEL_RESOURCE_ATTRIBUTES: [
    "resourceAttributes",
    String,
    "further attributes of the service in traces, such as `deployment.environment.name=prod`; write spaces and commas as `%XX`",
  ],
  OTEL_TRACES_SAMPLER: [
    "tracesSampler",
    String,
    "`always_on`, `always_off` or `traceidratio`. With the prefix `parentbased_`, the sampler applies only to calls without the header `traceparent`",
    "parentbased_always_on",
  ],
  OTEL_TRACES_SAMPLER_ARG: ["tracesSamplerArg", String, "share of calls that `traceidratio` samples, from 0 to 1", "1"],
} as const satisfies { readonly [name: string]: Row };

type Row = readonly [field: string, parse: (text: string) => unknown, description: string, byDefault?: string];

export type Setting = keyof typeof SETTINGS;

/** Returns the default of a setting as text. Returns an empty text if the setting has no default. */
export function defaultOf(name: Setting): string {
  const [, , , byDefault = ""]: Row = SETTINGS[name];
  return byDefault;
}

/** The name of a setting whose value is the path of a file. The settings of OpenTelemetry do not end in `_FILE`. */
export type FileSetting = Extract<Setting, `${string}_FILE` | `${string}_CERTIFICATE` | `${string}_CLIENT_KEY`>;
