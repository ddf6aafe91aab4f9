import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { parseNetwork } from "../domain/client-address.ts";
import { newUserGroupToken } from "../domain/token.ts";
import type { RedisTarget } from "../store/connection/url.ts";
import { type Config, ConfigError, type Environ, loadConfig } from "./config.ts";
import { SETTINGS, type Setting } from "./settings.ts";

const DAY = 86_400_000;
const KEY = Buffer.alloc(32, 1).toString("base64");
const OTHER_KEY = Buffer.alloc(32, 2).toString("base64");
const TOKEN = "0123456789abcdef";
/** Secrets that no message may contain. */
const SECRETS = [KEY, KEY.slice(1), OTHER_KEY, TOKEN, "ugt_0", "hunter2", "sec ret"];

const fixture = (name: string) => fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));
const CERT = fixture("cert.pem");
const CERT_KEY = fixture("key.pem");
const OTHER_CERT_KEY = fixture("other-key.pem");

const folder = mkdtempSync(join(tmpdir(), "ugs-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

async function faultsOf(environ: Environ): Promise<readonly string[]> {
  try {
    await loadConfig(environ);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}

describe("defaults", () => {
  const defaults: Config = {
    host: "127.0.0.1",
    port: 8080,
    workers: 1,
    files: [],
    withTexts: expect.any(Function),
    redis: undefined,
    tokenKeys: [],
    apiTokens: [],
    adminTokens: [],
    rotationGraceMs: 0,
    apiTokenCacheMs: 5000,
    auditRetentionMs: 90 * 86_400_000,
    auditMaxEvents: 100_000,
    minReplicasAck: 0,
    metricsPort: undefined,
    reflection: true,
    docs: true,
    console: undefined,
    legacyPaths: false,
    maxConnections: 4096,
    rateLimit: undefined,
    authFailureLimit: { max: 60, windowSeconds: 60 },
    publicUrl: undefined,
    viewerSessionMaxMs: 3_600_000,
    trustedProxies: [],
    webhookAllow: [],
    corsOrigins: [],
    tls: undefined,
    logLevel: "info",
    shutdownTimeoutMs: 10_000,
    shutdownDelayMs: 0,
    redisTimeoutMs: 1000,
    otlpEndpoint: undefined,
    otlpTracesEndpoint: undefined,
    otlpProtocol: "http/protobuf",
    otlpHeaders: {},
    otlpCa: undefined,
    otlpCert: undefined,
    otlpKey: undefined,
    serviceName: "user-group-service",
    resourceAttributes: "",
    tracesSampler: "parentbased_always_on",
    tracesSamplerArg: "1",
    misspelled: [],
  };

  it("the defaults apply if no variable is set", async () => {
    expect(await loadConfig({})).toEqual(defaults);
  });

  it("the defaults apply if every variable is empty", async () => {
    expect(await loadConfig(Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, ""])))).toEqual(defaults);
  });

  it("the defaults are equal to the documented defaults", async () => {
    const written = Object.entries(SETTINGS).map(([name, [, , , byDefault = ""]]) => [name, byDefault]);
    expect(await loadConfig(Object.fromEntries(written))).toEqual(defaults);
  });

  it("the defaults apply if only variables of other programs are set", async () => {
    expect(await loadConfig({ PATH: "/bin", REDIS: "redis://h", constructor: "x", HOSTNAME: "h" })).toEqual(defaults);
  });
});

it("freezes the loaded configuration", async () => {
  expect(Object.isFrozen(await loadConfig({}))).toBe(true);
});

describe("variables that are not settings", () => {
  const misspelled = async (name: string, value = "x") => (await loadConfig({ [name]: value })).misspelled;

  it.each([
    ["RATELIMIT", "RATE_LIMIT"],
    ["RATE_LIMITS", "RATE_LIMIT"],
    ["rate_limit", "RATE_LIMIT"],
    ["port", "PORT"],
    ["TLS_CERTFILE", "TLS_CERT_FILE"],
    ["TLS_CERT", "TLS_CERT_FILE"],
    ["TLS_KEY", "TLS_KEY_FILE"],
    ["REDISURL", "REDIS_URL"],
    ["REDIS_URI", "REDIS_URL"],
    ["REDIS_CA", "REDIS_CA_FILE"],
    ["REDIS_PASSWORD", "REDIS_PASSWORD_FILE"],
    ["API_TOKEN_FILE", "API_TOKENS_FILE"],
    ["TOKEN_KEY", "TOKEN_KEYS"],
    ["ADMIN_TOKENS", "ADMIN_TOKEN"],
    ["CORS_ORIGIN", "CORS_ORIGINS"],
    ["TRUSTED_PROXY", "TRUSTED_PROXIES"],
    ["LOGLEVEL", "LOG_LEVEL"],
    ["WORKER", "WORKERS"],
    ["METRIC_PORT", "METRICS_PORT"],
    ["REDIS_TIME_OUT", "REDIS_TIMEOUT"],
    ["OTEL_EXPORTER_OTLP_ENPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"],
    ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"],
    ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"],
    ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"],
  ])("a variable is reported if its name resembles a setting: %s resembles %s", async (name, setting) => {
    expect(await misspelled(name)).toEqual([{ name, setting }]);
    expect(await misspelled(name, "")).toEqual([]);
  });

  it.each([
    ...["PATH", "HOSTNAME", "HOSTS", "PORTS", "POST", "GHOST", "SUPPORT", "REPORT", "DISPLAY", "OTEL_LOG_LEVEL"],
    ...["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "SSLKEYLOGFILE", "REDIS", "REDIS_HOST"],
    ...["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT"],
    ...["OTEL_EXPORTER_OTLP_TRACES_HEADERS"],
    ...["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "OTEL_PROPAGATORS"],
    ...["REDIS_PORT", "REDIS_PORT_6379_TCP", "REDIS_SERVICE_HOST", "PORT_8080_TCP", "npm_config_port", "GITHUB_TOKEN"],
    ...["USER_GROUP_TOKEN", "API_KEY", "API_TOKEN", "TOKEN", "DENO_JOBS", "LESS", "LS_COLORS", "_", "__proto__"],
  ])("a variable is not reported if its name may belong to another program: %s", async (name) => {
    expect(await misspelled(name)).toEqual([]);
  });

  it("the variable API_TOKEN is reported only if its value looks like an entry of API_TOKENS", async () => {
    for (const value of ["ugk_0123", "c2VjcmV0c2VjcmV0cw=="]) expect(await misspelled("API_TOKEN", value)).toEqual([]);
    expect(await misspelled("API_TOKEN", `acme/Customer=${TOKEN}`)).toHaveLength(1);
  });

  it("a misspelled variable is reported together with the faults that it may have caused", async () => {
    const load = () => loadConfig({ REDIS_URL: "redis://h", TOKEN_KEY: `k:${KEY}` });
    await expect(load).rejects.toThrow(/\n {2}TOKEN_KEYS is missing.*\n {2}TOKEN_KEY is set.*TOKEN_KEYS/);
    await expect(load).rejects.not.toThrow(KEY);
  });
});

/** Maps a setting to the other settings that this setting requires. */
const BESIDE: { readonly [name in Setting]?: Environ } = {
  REDIS_URL: { TOKEN_KEYS: `k:${KEY}` },
  REDIS_CA_FILE: { REDIS_URL: "rediss-cluster://h", TOKEN_KEYS: `k:${KEY}` },
  REDIS_SENTINEL_PASSWORD: { REDIS_URL: "redis-sentinel://h#m", TOKEN_KEYS: `k:${KEY}` },
  WORKERS: { REDIS_URL: "redis://h", TOKEN_KEYS: `k:${KEY}` },
  MIN_REPLICAS_ACK: { REDIS_URL: "redis://h", TOKEN_KEYS: `k:${KEY}` },
};

type Good = readonly [setting: Setting, text: string, field: keyof Config, value: unknown];

const key = (id: string, byte: number) => ({ id, secret: Buffer.alloc(32, byte) });

interface RedisFields extends Partial<Omit<RedisTarget, "hosts" | "secrets"> & RedisTarget["secrets"]> {
  readonly hosts?: readonly (readonly [host: string, port: number])[];
}

/** Returns the expected `redis`. Each missing field gets its value for the REDIS_URL `redis://h`, without secrets. */
function redis({ hosts = [["h", 6379]], password, sentinelPassword, ca, ...others }: RedisFields): RedisTarget {
  return {
    topology: "node",
    tls: false,
    db: 0,
    username: undefined,
    master: "",
    ...others,
    hosts: hosts.map(([host, port]) => ({ host, port })) as unknown as RedisTarget["hosts"],
    secrets: { password, sentinelPassword, ca },
  };
}

const GOOD: readonly Good[] = [
  ["HOST", "0.0.0.0", "host", "0.0.0.0"],
  ["HOST", "::1", "host", "::1"],
  ["HOST", "my-host.example", "host", "my-host.example"],
  ["PORT", "0", "port", 0],
  ["WORKERS", "4", "workers", 4],
  ["PORT", "65535", "port", 65_535],
  ["REDIS_URL", "redis://127.0.0.1", "redis", redis({ hosts: [["127.0.0.1", 6379]] })],
  [
    "REDIS_URL",
    "rediss://user:p%40ss@h.example:6380/3",
    "redis",
    redis({ hosts: [["h.example", 6380]], tls: true, db: 3, username: "user", password: "p@ss" }),
  ],
  ["REDIS_URL", "redis://:p%3F@[::1]:6380/", "redis", redis({ hosts: [["::1", 6380]], password: "p?" })],
  ["REDIS_URL", "redis://h:6379/0", "redis", redis({})],
  ["REDIS_URL", "REDIS://h", "redis", redis({})],
  [
    "REDIS_URL",
    "redis-sentinel://h:1,[::1]:2,h3/4#my-master_1.x",
    "redis",
    redis({
      hosts: [
        ["h", 1],
        ["::1", 2],
        ["h3", 26_379],
      ],
      topology: "sentinel",
      db: 4,
      master: "my-master_1.x",
    }),
  ],
  [
    "REDIS_URL",
    "rediss-sentinel://u:p%40@h#m",
    "redis",
    redis({ hosts: [["h", 26_379]], topology: "sentinel", tls: true, username: "u", password: "p@", master: "m" }),
  ],
  [
    "REDIS_URL",
    "redis-cluster://:p%2C@h:1,10.0.0.1:2/0",
    "redis",
    redis({
      hosts: [
        ["h", 1],
        ["10.0.0.1", 2],
      ],
      topology: "cluster",
      password: "p,",
    }),
  ],
  ["REDIS_URL", "rediss-cluster://h", "redis", redis({ topology: "cluster", tls: true })],
  ["REDIS_CA_FILE", CERT, "redis", redis({ topology: "cluster", tls: true, ca: readFileSync(CERT, "utf8").trimEnd() })],
  [
    "REDIS_SENTINEL_PASSWORD",
    "p@ss word",
    "redis",
    redis({ hosts: [["h", 26_379]], topology: "sentinel", master: "m", sentinelPassword: "p@ss word" }),
  ],
  ["TOKEN_KEYS", `k-1_A:${KEY}`, "tokenKeys", [key("k-1_A", 1)]],
  ["TOKEN_KEYS", `new:${OTHER_KEY}, old:${KEY}`, "tokenKeys", [key("new", 2), key("old", 1)]],
  ["API_TOKENS", `acme=${TOKEN}`, "apiTokens", [{ environment: { name: "acme", tag: undefined }, token: TOKEN }]],
  [
    "API_TOKENS",
    `acme/Customer=${TOKEN}=, acme/Testing=${TOKEN}-2,acme/Testing=${TOKEN}-3`,
    "apiTokens",
    [
      { environment: { name: "acme", tag: "Customer" }, token: `${TOKEN}=` },
      { environment: { name: "acme", tag: "Testing" }, token: `${TOKEN}-2` },
      { environment: { name: "acme", tag: "Testing" }, token: `${TOKEN}-3` },
    ],
  ],
  [
    "API_TOKENS",
    `billing@acme/Customer=${TOKEN}@x=1, b.2_-@acme=${TOKEN},billing@acme=${TOKEN}-2`,
    "apiTokens",
    [
      { environment: { name: "acme", tag: "Customer" }, token: `${TOKEN}@x=1`, name: "billing" },
      { environment: { name: "acme", tag: undefined }, token: TOKEN, name: "b.2_-" },
      { environment: { name: "acme", tag: undefined }, token: `${TOKEN}-2`, name: "billing" },
    ],
  ],
  ["ADMIN_TOKEN", TOKEN, "adminTokens", [TOKEN]],
  ["ADMIN_TOKEN", "x".repeat(512), "adminTokens", ["x".repeat(512)]],
  ["ADMIN_TOKEN", `${TOKEN}, ${TOKEN}-2`, "adminTokens", [TOKEN, `${TOKEN}-2`]],
  ["ROTATION_GRACE", "0s", "rotationGraceMs", 0],
  ["ROTATION_GRACE", "30d", "rotationGraceMs", 30 * DAY],
  ["ROTATION_GRACE", "1.5m", "rotationGraceMs", 90_000],
  ["API_TOKEN_CACHE", "0ms", "apiTokenCacheMs", 0],
  ["API_TOKEN_CACHE", "24h", "apiTokenCacheMs", DAY],
  ["MIN_REPLICAS_ACK", "2", "minReplicasAck", 2],
  ["METRICS_PORT", "9090", "metricsPort", 9090],
  ["METRICS_PORT", "0", "metricsPort", 0],
  ["REFLECTION", "off", "reflection", false],
  ["LEGACY_PATHS", "on", "legacyPaths", true],
  ["MAX_CONNECTIONS", "1", "maxConnections", 1],
  ["CORS_ORIGINS", "*", "corsOrigins", "*"],
  [
    "CORS_ORIGINS",
    "https://a.example, http://127.0.0.1:3000",
    "corsOrigins",
    ["https://a.example", "http://127.0.0.1:3000"],
  ],
  ["RATE_LIMIT", "1/1s", "rateLimit", { max: 1, windowSeconds: 1 }],
  ["RATE_LIMIT", "1000000000/24h", "rateLimit", { max: 1_000_000_000, windowSeconds: 86_400 }],
  ["AUTH_FAILURE_LIMIT", "5/2m", "authFailureLimit", { max: 5, windowSeconds: 120 }],
  ["AUTH_FAILURE_LIMIT", "off", "authFailureLimit", undefined],
  [
    "TRUSTED_PROXIES",
    "10.0.0.0/8, fd00::/8,192.0.2.7",
    "trustedProxies",
    ["10.0.0.0/8", "fd00::/8", "192.0.2.7"].map((text) => parseNetwork(text) ?? expect.fail(text)),
  ],
  ["LOG_LEVEL", "silent", "logLevel", "silent"],
  ["LOG_LEVEL", "trace", "logLevel", "trace"],
  ["AUDIT_RETENTION", "1s", "auditRetentionMs", 1000],
  ["AUDIT_RETENTION", "3660d", "auditRetentionMs", 3660 * 86_400_000],
  ["AUDIT_MAX_EVENTS", "1000", "auditMaxEvents", 1000],
  ["AUDIT_MAX_EVENTS", "1000000000", "auditMaxEvents", 1_000_000_000],
  ["SHUTDOWN_TIMEOUT", "0s", "shutdownTimeoutMs", 0],
  ["SHUTDOWN_TIMEOUT", "2m", "shutdownTimeoutMs", 120_000],
  ["SHUTDOWN_DELAY", "15s", "shutdownDelayMs", 15_000],
  ["REDIS_TIMEOUT", "10ms", "redisTimeoutMs", 10],
  ["REDIS_TIMEOUT", "1m", "redisTimeoutMs", 60_000],
  ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318", "otlpEndpoint", "http://h:4318"],
  ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://h/v1/traces?x=y", "otlpTracesEndpoint", "https://h/v1/traces?x=y"],
  ["OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "otlpProtocol", "http/protobuf"],
  [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "authorization=Bearer%20a=%2Cb, x-tenant = 1,empty=",
    "otlpHeaders",
    { authorization: "Bearer a=,b", "x-tenant": "1", empty: "" },
  ],
  ["OTEL_EXPORTER_OTLP_CERTIFICATE", CERT, "otlpCa", readFileSync(CERT, "utf8").trimEnd()],
  ["OTEL_SERVICE_NAME", "groups of é", "serviceName", "groups of é"],
  ["OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=a-1", "resourceAttributes", "k8s.pod.name=a-1"],
  ["PUBLIC_URL", "https://Groups.example.com:443/ugs//", "publicUrl", "https://groups.example.com/ugs"],
  ["PUBLIC_URL", "http://[::1]:8080", "publicUrl", "http://[::1]:8080"],
  ["VIEWER_SESSION_MAX", "60s", "viewerSessionMaxMs", 60_000],
  ["OTEL_TRACES_SAMPLER", "traceidratio", "tracesSampler", "traceidratio"],
  ["OTEL_TRACES_SAMPLER_ARG", "0.05", "tracesSamplerArg", "0.05"],
];

describe.each(GOOD)("%s=%s", (setting, text, field, value) => {
  it("the value is accepted", async () => {
    expect((await loadConfig({ ...BESIDE[setting], [setting]: text }))[field]).toEqual(value);
  });
});

const DURATIONS = ["5", "s", "-1s", "5 s", "5S", "1e3s", "infinity", "9".repeat(400).concat("s"), " 5s"];

/** Variables that only OpenTelemetry checks. */
const UNCHECKED = [
  "OTEL_SERVICE_NAME",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
] as const;

/** Invalid values. Some contain a secret of `SECRETS`, so that the test fails if a message quotes such a value. */
const BAD: { readonly [name in Exclude<Setting, (typeof UNCHECKED)[number]>]: readonly string[] } = {
  HOST: ["[::1]", "a b", "http://h", "h/", "é"],
  PORT: ["65536", "-1", "8080.5", "0x50", "1e3", " 80", "eighty", "99999999999999999999"],
  WORKERS: ["0", "-1", "1.5", "257", "two"],
  REDIS_URL: [
    ...words(`
      127.0.0.1:6379 http://h redis:// redis://h:99999 redis://h/zero redis://h/0/1 redis-sentinel://h:1,h:2/0
      redis-sentinel://h:1,/0#master redis-sentinel://h:1/0#my/master redis-sentinel://h:1/zero#master
      redis-sentinel://::1/0#master redis-sentinel://[::zz]:1/0#master redis-sentinel://user@h:1/0#master
      redis-sentinel://h:1/0?x=y#master redis-cluster://h:1,h:2/1 redis-cluster://h:1,h:0 redis-cluster://h:1,h:2#master
      redis-cluster:// redis-clusters://h:1 redis://h:0 redis://:hunter2@x@h redis://h/0?keyPrefix=p
      redis://h?enableOfflineQueue=true redis://h/? redis://h?password=hunter2 redis://h/0#x redis://:%ff@h
      redis://%ff:hunter2@h redis://:100%@h redis://user@h redis://user:@h redis://h%20x redis://a,b redis://:p?ss@h
      redis://:p#ss@h redis://:p/ss@h redis:/user:hunter2@ redis://user:hunter2@h/x redis://:hunter2%ff@h
      redis://hunter2@h redis://:hunter2?@h redis-cluster://:hunter2@h:1/3 redis-sentinel://user:hunter2@h:1,h/x
      redis-sentinel://user:hunter2@h:1#hunter2/ redis://:x@hunter2@h
    `),
    "redis-cluster://h:1 ,h:2",
  ],
  REDIS_CA_FILE: [join(folder, "missing"), folder, CERT_KEY, "-----BEGIN CERTIFICATE-----"],
  REDIS_PASSWORD_FILE: [
    ...[join(folder, "missing"), folder, "hunter2", file("lines", "hunter2\nb\n"), file("nothing", "\r\n")],
  ],
  REDIS_SENTINEL_PASSWORD: ["hunter2\n"],
  REDIS_SENTINEL_PASSWORD_FILE: [join(folder, "missing"), file("tab", "a\tb")],
  TOKEN_KEYS_FILE: [
    ...[join(folder, "missing"), folder, `k:${KEY}`, file("cut-key", `k:${KEY.slice(1)}`)],
    file("half-key", `k:${KEY}\nl:${KEY.slice(9)}\n`),
  ],
  API_TOKENS_FILE: [
    ...[join(folder, "missing"), `a=${TOKEN}`, file("cut-token", "acme=hunter2")],
    file("half-token", `a=${TOKEN}\nb=${TOKEN.slice(9)}`),
  ],
  ADMIN_TOKEN_FILE: [
    ...[join(folder, "missing"), TOKEN, `/${TOKEN}?`, file("three", `${TOKEN}-1\n${TOKEN}-2\n${TOKEN}-3\n`)],
  ],
  TOKEN_KEYS: [
    ...[KEY, `k:${KEY.slice(4)}`, `k:${KEY}AAAA`, `:${KEY}`, `k k:${KEY}`, `k:${KEY},k:${OTHER_KEY}`, `k:${KEY},`],
    ...["k:", `k:${KEY}!`],
  ],
  API_TOKENS: [
    ...[TOKEN, `=${TOKEN}`, "acme=short", `acme/Production=${TOKEN}`, `acme/customer=${TOKEN}`, `a b=${TOKEN}`],
    ...[`${"n".repeat(65)}=${TOKEN}`, `acme=with space in it`, `acme=${"x".repeat(513)}`, `acme=${TOKEN}é`],
    ...[`acme/Customer=${TOKEN},acme/Testing=${TOKEN}`, `acme=${TOKEN},`, `@acme=${TOKEN}`, `a@b@acme=${TOKEN}`],
    ...[`a b@acme=${TOKEN}`, `a/Customer@acme=${TOKEN}`, `${"n".repeat(65)}@acme=${TOKEN}`, `name@=${TOKEN}`],
    ...[`name@acme`, `one@acme=${TOKEN},one@acme=${TOKEN}-2`, `acme=${newUserGroupToken()}`],
    ...["acme=sec ret", `acme/Wrong=${TOKEN}`, `a=${TOKEN},b=${TOKEN}`, `o ne@acme=${TOKEN}`],
  ],
  ADMIN_TOKEN: [
    ...["hunter2", "fifteen-letters", "x".repeat(513), "with space inside", newUserGroupToken(), `${TOKEN},`],
    ...[`${TOKEN},${TOKEN}`, `${TOKEN},short`, `${TOKEN},${TOKEN}-2,${TOKEN}-3`],
  ],
  ROTATION_GRACE: [...DURATIONS, "31d"],
  API_TOKEN_CACHE: [...DURATIONS, "25h"],
  AUDIT_RETENTION: ["0s", "999ms", "3661d", "90", ...DURATIONS],
  AUDIT_MAX_EVENTS: ["0", "999", "1000000001", "10M", "off"],
  MIN_REPLICAS_ACK: ["-1", "101", "one", "1.5"],
  METRICS_PORT: ["-1", "65536", "http"],
  REFLECTION: ["true", "0", "ON"],
  DOCS: ["ON", "yes"],
  CONSOLE: ["ON", "1"],
  LEGACY_PATHS: ["true", "1", "ON", "explo"],
  MAX_CONNECTIONS: ["0", "-1", "many"],
  RATE_LIMIT: [
    ...["on", "100", "100/", "/1s", "100/10", "0/1s", "-1/1s", "1.5/1s", "1e3/1s", "1000000001/1s", "100/10s/2"],
    ...["100/999ms", "100/1500ms", "100/25h", "100 / 10s", "100/10s,", "OFF"],
  ],
  AUTH_FAILURE_LIMIT: ["0/1m", "none", "60/1m "],
  PUBLIC_URL: [
    ...["groups.example.com", "ftp://h", "http://", "http://user:hunter2@h", "https://h/?a=b", "https://h/#part"],
    "https:/ /h",
  ],
  VIEWER_SESSION_MAX: [...DURATIONS, "59s", "61m", "2h"],
  WEBHOOK_ALLOW: ["hooks.example.com", "10.0.0.0/33", "10.0.0.0/8,", "::/129", "*"],
  TRUSTED_PROXIES: ["proxy.example.com", "10.0.0.0/33", "10.0.0.0/8,", "10.0.0.0/8;fd00::/8", "10.1", "::/129", "*"],
  CORS_ORIGINS: [
    ...["app.example.com", "https://app.example.com/", "https://app.example.com/path", "https://APP.example.com"],
    ...["https://app.example.com:443", "https://*.example.com", "*, https://a.example", "https://a.example,"],
    ...["null"],
  ],
  TLS_CERT_FILE: [join(folder, "missing"), folder],
  TLS_KEY_FILE: [join(folder, "missing"), folder, "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"],
  TLS_CLIENT_CA_FILE: [join(folder, "missing"), folder],
  LOG_LEVEL: ["INFO", "verbose", " info", "toString"],
  SHUTDOWN_TIMEOUT: [...DURATIONS, "25h"],
  SHUTDOWN_DELAY: [...DURATIONS, "25h"],
  REDIS_TIMEOUT: [...DURATIONS, "9ms", "61s"],
  OTEL_EXPORTER_OTLP_ENDPOINT: ["h:4318", "grpc://h:4317", "//h", "http://", "http://user:hunter2@h"],
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: ["h/v1/traces", "http://user@h/v1/traces"],
  OTEL_EXPORTER_OTLP_PROTOCOL: ["grpc", "http/json", "HTTP/PROTOBUF"],
  OTEL_EXPORTER_OTLP_HEADERS: [
    ...["hunter2", "=hunter2", "authorization=hunter2%", "a=b,hunter2", "a=100%", "a=%ff", "a=b,", "a b=c", "é=a"],
    ...["a=%C3%A9", "a=b%0Ac", "a:b=c"],
  ],
  OTEL_EXPORTER_OTLP_CERTIFICATE: [join(folder, "missing"), folder, CERT_KEY],
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: [join(folder, "missing"), folder, CERT_KEY],
  OTEL_EXPORTER_OTLP_CLIENT_KEY: [join(folder, "missing"), folder, CERT],
};

describe.each(Object.entries(BAD) as [Setting, readonly string[]][])("%s", (setting, texts) => {
  it.each(texts)("rejects %j", async (text) => {
    const faults = await faultsOf({ ...BESIDE[setting], [setting]: text });
    expect(new Set(faults.map((fault) => fault.split(" ")[0]))).toEqual(new Set([setting]));
    for (const secret of SECRETS) expect(faults.join("\n")).not.toContain(secret);
  });
});

describe("the error for invalid settings", () => {
  it("names every fault of one setting", async () => {
    expect(await faultsOf({ ...BESIDE.REDIS_URL, REDIS_URL: "redis-sentinel://user@h:0/x" })).toHaveLength(4);
  });

  it("names every invalid entry of a list", async () => {
    const named: readonly (readonly [Setting, string, readonly string[]])[] = [
      [
        "TRUSTED_PROXIES",
        "10.0.0.0/8,10.0.0.0/33,,::1",
        ['entry 2 is "10.0.0.0/33": it must', "entry 3 is empty: it must"],
      ],
      ["CORS_ORIGINS", "https://a.example, b.example", ['entry 2 is "b.example": it must']],
      ["API_TOKENS", `a=${TOKEN},b=short`, ["entry 2 needs a token of 16 to 512"]],
      ["API_TOKENS", `a=${TOKEN},${TOKEN}`, ["entry 2 must be ENV=TOKEN"]],
      ["API_TOKENS", `a=${TOKEN},b=${TOKEN}x,c=${TOKEN}`, ["entries 1 and 3 have the same token"]],
      ["TOKEN_KEYS", `a:${KEY},b:short`, ["entry 2 must be ID:KEY"]],
      ["TOKEN_KEYS", `a:${KEY},b:${KEY},b:${OTHER_KEY}`, ["entries 2 and 3 have the same ID"]],
      ["REDIS_URL", "redis-cluster://h:1,h:0", ["has an invalid host 2, but must be redis-cluster://"]],
    ];
    for (const [setting, text, starts] of named) {
      const faults = await faultsOf({ ...BESIDE[setting], [setting]: text });
      expect(faults).toEqual(starts.map((start) => expect.stringContaining(`${setting} ${start}`)));
    }
  });

  it("names only the first 20 faults of a long list, and the number of the other faults", async () => {
    const faults = await faultsOf({ CORS_ORIGINS: Array.from({ length: 40_000 }, () => "x").join(",") });
    expect([faults.length, faults.at(-1)]).toEqual([21, "CORS_ORIGINS has 39980 more faults in its entries"]);
  });

  it("formats durations as in settings", async () => {
    const faults = await faultsOf({
      ROTATION_GRACE: "31d",
      AUDIT_RETENTION: "1",
      REDIS_TIMEOUT: "1ms",
      SHUTDOWN_TIMEOUT: "2d",
    });
    const ranges = faults.map((fault) => /^\w+ must be a duration from \w+ to \w+/.exec(fault)?.[0]);
    expect(ranges).toEqual([
      "ROTATION_GRACE must be a duration from 0s to 30d",
      "AUDIT_RETENTION must be a duration from 1s to 3660d",
      "SHUTDOWN_TIMEOUT must be a duration from 0s to 1d",
      "REDIS_TIMEOUT must be a duration from 10ms to 1m",
    ]);
  });

  it("names no OTEL_ variable if only other settings are invalid", async () => {
    for (const [name, texts] of Object.entries(BAD).filter(([name]) => !name.startsWith("OTEL_"))) {
      for (const text of texts)
        for (const fault of await faultsOf({ [name]: text })) expect(fault).not.toContain("OTEL_");
    }
  });

  it("contains the command that creates a key if TOKEN_KEYS is missing", async () => {
    expect(await faultsOf({ REDIS_URL: "redis://h" })).toEqual([expect.stringContaining("openssl rand -base64 32")]);
  });

  it("names every invalid setting once if all settings are invalid", async () => {
    const environ = Object.fromEntries(Object.entries(BAD).map(([name, [text]]) => [name, text]));
    const faults = await faultsOf(environ);
    const named = faults.map((fault) => fault.split(" ")[0]);
    expect([...named, ...UNCHECKED].sort()).toEqual(Object.keys(SETTINGS).sort());
    await expect(loadConfig(environ)).rejects.toThrow(faults.join("\n  "));
  });
});

describe("combinations of settings", () => {
  const CASES: readonly (readonly [string, Environ, Setting])[] = [
    ["a real Redis without keys", { REDIS_URL: "redis://h" }, "TOKEN_KEYS"],
    [
      "an ADMIN_TOKEN that is also the token of an environment",
      { API_TOKENS: `acme=${TOKEN}`, ADMIN_TOKEN: TOKEN },
      "ADMIN_TOKEN",
    ],
    [
      "a second ADMIN_TOKEN that is also the token of an environment",
      { API_TOKENS: `acme=${TOKEN}`, ADMIN_TOKEN: `${TOKEN}-2,${TOKEN}` },
      "ADMIN_TOKEN",
    ],
    [
      "CA certificates for Redis without TLS",
      { ...BESIDE.REDIS_URL, REDIS_URL: "redis://h", REDIS_CA_FILE: CERT },
      "REDIS_CA_FILE",
    ],
    ["CA certificates without Redis", { REDIS_CA_FILE: CERT }, "REDIS_CA_FILE"],
    [
      "a Sentinel password without Sentinels",
      { ...BESIDE.REDIS_URL, REDIS_URL: "redis-cluster://h", REDIS_SENTINEL_PASSWORD: "p" },
      "REDIS_SENTINEL_PASSWORD",
    ],
    [
      "keys in the environment and in a file",
      { TOKEN_KEYS: `k:${KEY}`, TOKEN_KEYS_FILE: file("keys", `k:${KEY}`) },
      "TOKEN_KEYS_FILE",
    ],
    [
      "two Redis passwords",
      { ...BESIDE.REDIS_URL, REDIS_URL: "redis://:p@h", REDIS_PASSWORD_FILE: file("password", "q") },
      "REDIS_PASSWORD_FILE",
    ],
    ["a Redis password without Redis", { REDIS_PASSWORD_FILE: file("password", "q") }, "REDIS_PASSWORD_FILE"],
    ["several workers with the embedded store", { WORKERS: "2" }, "WORKERS"],
    ["replicas with the embedded store", { MIN_REPLICAS_ACK: "1" }, "MIN_REPLICAS_ACK"],
    ["METRICS_PORT equal to PORT", { METRICS_PORT: "8080" }, "METRICS_PORT"],
    ["a certificate without its key", { TLS_CERT_FILE: CERT }, "TLS_KEY_FILE"],
    ["a key without its certificate", { TLS_KEY_FILE: CERT_KEY }, "TLS_CERT_FILE"],
    ["client certificates without TLS", { TLS_CLIENT_CA_FILE: CERT }, "TLS_CLIENT_CA_FILE"],
    [
      "a certificate for the collector without its key",
      { OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: CERT },
      "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    ],
    [
      "a key for the collector without its certificate",
      { OTEL_EXPORTER_OTLP_CLIENT_KEY: CERT_KEY },
      "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    ],
    [
      "a certificate for the collector with the key of another certificate",
      { OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: CERT, OTEL_EXPORTER_OTLP_CLIENT_KEY: OTHER_CERT_KEY },
      "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    ],
    [
      "CA certificates for a collector without TLS",
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http://h:4318", OTEL_EXPORTER_OTLP_CERTIFICATE: CERT },
      "OTEL_EXPORTER_OTLP_CERTIFICATE",
    ],
    [
      "a certificate for a collector without TLS",
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: "https://h",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://h/v1/traces",
        OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: CERT,
        OTEL_EXPORTER_OTLP_CLIENT_KEY: CERT_KEY,
      },
      "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    ],
    [
      "CA certificates for clients and a server certificate without its key",
      { TLS_CLIENT_CA_FILE: CERT, TLS_CERT_FILE: CERT },
      "TLS_KEY_FILE",
    ],
  ];
  it.each(CASES)(
    "an insecure or incomplete combination of settings is rejected: %s",
    async (_name, environ, setting) => {
      const faults = await faultsOf(environ);
      expect(faults).toHaveLength(1);
      expect(faults[0]?.split(" ")[0]).toBe(setting);
    },
  );
});

describe("TLS files", () => {
  const faultsWith = (environ: Environ) => faultsOf({ TLS_CERT_FILE: CERT, TLS_KEY_FILE: CERT_KEY, ...environ });

  it("the TLS files are read into the configuration", async () => {
    const { tls } = await loadConfig({ TLS_CERT_FILE: CERT, TLS_KEY_FILE: CERT_KEY });
    expect(tls?.cert).toContain("-----BEGIN CERTIFICATE-----");
    expect(tls?.key).toContain("-----BEGIN PRIVATE KEY-----");
    expect(tls?.clientCa).toBeUndefined();
  });

  it("the TLS files can contain CA certificates for clients", async () => {
    const config = await loadConfig({ TLS_CERT_FILE: CERT, TLS_KEY_FILE: CERT_KEY, TLS_CLIENT_CA_FILE: CERT });
    expect(config.tls?.clientCa).toContain("-----BEGIN CERTIFICATE-----");
  });

  it.each<[string, Environ, string]>([
    ["the key of another certificate", { TLS_KEY_FILE: OTHER_CERT_KEY }, "TLS_KEY_FILE is not the key"],
    ["no certificate", { TLS_CERT_FILE: file("no-cert", "garbage") }, "TLS_CERT_FILE must"],
    ["a key in place of a certificate", { TLS_CERT_FILE: CERT_KEY }, "TLS_CERT_FILE must"],
    ["no key", { TLS_KEY_FILE: file("no-key", "garbage") }, "TLS_KEY_FILE must"],
    ["a certificate in place of a key", { TLS_KEY_FILE: CERT }, "TLS_KEY_FILE must"],
    [
      "an invalid CA certificate for clients",
      { TLS_CLIENT_CA_FILE: file("no-ca", "garbage") },
      "TLS_CLIENT_CA_FILE must",
    ],
    ["a key in place of the CA certificates for clients", { TLS_CLIENT_CA_FILE: CERT_KEY }, "TLS_CLIENT_CA_FILE must"],
    [
      "an empty file of CA certificates for clients",
      { TLS_CLIENT_CA_FILE: file("empty", "") },
      "TLS_CLIENT_CA_FILE must",
    ],
  ])("the TLS files are rejected if they contain %s", async (_name, environ, text) => {
    expect(await faultsWith(environ)).toEqual([expect.stringContaining(text)]);
  });
});

describe("secrets in files", () => {
  const keys = [
    { id: "a", secret: Buffer.from(KEY, "base64") },
    { id: "b", secret: Buffer.from(OTHER_KEY, "base64") },
  ];

  it.each<[string, string]>([
    ["in the format of the environment variable", `a:${KEY},b:${OTHER_KEY}`],
    ["with a line break at the end", `a:${KEY}, b:${OTHER_KEY}\n`],
    ["with one entry per line", `a:${KEY}\nb:${OTHER_KEY}\n\n`],
    ["with commas and the line breaks of Windows", `a:${KEY},\r\nb:${OTHER_KEY}\r\n`],
  ])("a secret in a file is accepted %s", async (_name, text) => {
    const path = file("ring", text);
    const config = await loadConfig({ TOKEN_KEYS_FILE: path });
    expect(config.tokenKeys).toEqual(keys);
    expect(config.files).toEqual([{ setting: "TOKEN_KEYS_FILE", path, text }]);
  });

  it("a file with 40,000 entries or 200,000 line breaks does not crash or block the parser", async () => {
    const entries = Array.from({ length: 40_000 }, (_, i) => `a=${String(i).padStart(20, "0")}`);
    const config = await loadConfig({ API_TOKENS_FILE: file("many", entries.join("\n")) });
    expect(config.apiTokens).toHaveLength(entries.length);
    for (const text of [" ", "\n", "\r\n", ",\n "].map((part) => part.repeat(200_000)))
      expect(await faultsOf({ API_TOKENS_FILE: file("empty-lines", `${text}x`) })).not.toEqual([]);
  });

  it("a password in a file keeps its spaces", async () => {
    const environ = {
      REDIS_URL: "redis://user@h",
      TOKEN_KEYS: `k:${KEY}`,
      REDIS_PASSWORD_FILE: file("spaces", " a b \n"),
    };
    expect((await loadConfig(environ)).redis?.secrets.password).toBe(" a b ");
  });

  it("a secret in a file is parsed again without reading the files of other settings", async () => {
    const config = await loadConfig({
      PORT: "1",
      ADMIN_TOKEN_FILE: file("admin", TOKEN),
      API_TOKENS_FILE: file("api", `a=${TOKEN}1`),
    });
    rmSync(join(folder, "api"));
    const next = config.withTexts({ ADMIN_TOKEN_FILE: `${TOKEN}2\n` });
    expect(next).toMatchObject({ port: 1, adminTokens: [`${TOKEN}2`], apiTokens: config.apiTokens });
    expect(() => config.withTexts({ ADMIN_TOKEN_FILE: `${TOKEN}1` })).toThrow(/ADMIN_TOKEN .*API_TOKENS/);
  });
});
