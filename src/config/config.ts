import { createSecureContext } from "node:tls";
import { distance } from "fastest-levenshtein";
import { type RedisTarget, readRedisUrl } from "../store/connection/url.ts";
import { type FileContent, FileReader } from "./file-reader.ts";
import * as parse from "./parse.ts";
import { defaultOf, type FileSetting, SETTINGS, type Setting } from "./settings.ts";

/** An environment variable that is not a setting, but whose name resembles the name of a setting. */
interface Misspelled {
  readonly name: string;
  readonly setting: Setting;
}

/** The settings are invalid. The message lists every fault. */
export class ConfigError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[], misspelled: readonly Misspelled[] = []) {
    const hints = misspelled.map(
      ({ name, setting }) => `${name} is set, but is not a setting: did you mean ${setting}?`,
    );
    const lines = [...faults, ...hints].map((line) => `\n  ${line}`);
    super(`invalid settings:${lines.join("")}`);
    this.faults = faults;
  }
}

export type Environ = { readonly [name: string]: string | undefined };

interface SettingFile {
  readonly setting: FileSetting;
  readonly path: string;
  readonly text: string;
}

type Values = { readonly [Name in Setting as (typeof SETTINGS)[Name][0]]: ReturnType<(typeof SETTINGS)[Name][1]> };

interface TlsConfig {
  readonly cert: string;
  readonly key: string;
  /** CA certificates used to verify clients. If undefined, clients need no certificate. */
  readonly clientCa: string | undefined;
}

type Combined = "tlsCert" | "tlsKey" | "tlsClientCa" | "redisUrl" | `redis${"Ca" | "Password" | "SentinelPassword"}`;

export interface Config extends Omit<Values, Combined> {
  readonly tls: TlsConfig | undefined;
  /** Undefined if the service uses the embedded store. */
  readonly redis: RedisTarget | undefined;
  readonly files: readonly SettingFile[];
  /** Parses the settings again. A file that is not in `texts` keeps its content. @throws ConfigError */
  readonly withTexts: (texts: FileContents) => Readonly<Config>;
  readonly misspelled: readonly Misspelled[];
}

type FileContents = { readonly [name in FileSetting]?: FileContent };

/** Reads environment variables and files. Ignores empty variables. @throws ConfigError that lists all faults */
export async function loadConfig(environ: Environ): Promise<Readonly<Config>> {
  const settings = (Object.keys(SETTINGS) as Setting[]).filter(isFile);
  const paths = settings.flatMap((name) => (environ[name] ? [[name, environ[name]] as const] : []));
  return parseConfig(environ, Object.fromEntries(await new FileReader().readAll(paths)));
}

/** @param contents the contents of all files of settings @throws ConfigError that lists all faults */
function parseConfig(environ: Environ, contents: FileContents): Readonly<Config> {
  const given = (name: Setting): string => environ[name] || defaultOf(name);
  const files: SettingFile[] = [];
  const faults: string[] = [];
  const wrong = new Set<Setting>();
  const read: { [field: string]: unknown } = {};
  for (const [name, [field, parser]] of Object.entries(SETTINGS) as [Setting, (typeof SETTINGS)[Setting]][]) {
    try {
      if (!isFile(name)) {
        read[field] = parser(given(name));
        continue;
      }
      const path = given(name);
      const direct = name.slice(0, -"_FILE".length) as Setting;
      if (path === "" && direct in SETTINGS) continue;
      if (path !== "" && direct in SETTINGS && given(direct) !== "")
        throw new parse.SettingError(`and ${direct} are both set: unset one of them`);
      const text = contents[name] ?? "";
      if (text instanceof parse.SettingError) throw text;
      if (path !== "") files.push({ setting: name, path, text });
      read[field] = parser(path === "" ? "" : parse.fileValue(name, text));
    } catch (error) {
      if (!(error instanceof parse.SettingError)) throw error;
      wrong.add(name);
      faults.push(...error.faults.map((fault) => `${name} ${fault}`));
    }
  }
  const { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa, ...withoutTls } = read as Partial<Values>;
  const { redisUrl: url = "", redisPassword, redisSentinelPassword, redisCa, ...others } = withoutTls;
  const areRight = (...names: Setting[]) => names.every((name) => !wrong.has(name));
  const secrets = { password: redisPassword, sentinelPassword: redisSentinelPassword, ca: redisCa };
  const { target: redis, faults: urlFaults = [] } = url === "" ? {} : readRedisUrl(url, secrets);
  faults.push(...urlFaults.map((fault) => `REDIS_URL ${fault}`));
  const isUrlRight = urlFaults.length === 0;
  const areTlsFilesRight = areRight("TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE");
  const tls = areTlsFilesRight && cert !== undefined && key !== undefined ? { cert, key, clientCa } : undefined;
  const tlsFault = tls && faultOf(tls);
  const { otlpCa, otlpCert, otlpKey, otlpEndpoint, otlpTracesEndpoint = otlpEndpoint } = others;
  const areOtlpFilesRight = areRight("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY");
  // Rules for combinations of settings. They ignore invalid settings, whose faults are already in `faults`.
  const rules: readonly (readonly [isBroken: boolean, fault: string])[] = [
    [
      isUrlRight && redisPassword !== undefined && redis?.secrets.password !== redisPassword,
      url === ""
        ? "REDIS_PASSWORD_FILE needs REDIS_URL: the embedded store has no password"
        : "REDIS_PASSWORD_FILE is set, and REDIS_URL has a password: remove one of them",
    ],
    [
      isUrlRight && redisCa !== undefined && !redis?.tls,
      "REDIS_CA_FILE needs TLS in REDIS_URL: rediss://, rediss-sentinel:// or rediss-cluster://",
    ],
    [
      isUrlRight && redisSentinelPassword !== undefined && redis?.topology !== "sentinel",
      `${given("REDIS_SENTINEL_PASSWORD") === "" ? "REDIS_SENTINEL_PASSWORD_FILE" : "REDIS_SENTINEL_PASSWORD"} needs Sentinels in REDIS_URL: redis-sentinel://`,
    ],
    [
      url !== "" && given("TOKEN_KEYS") === "" && given("TOKEN_KEYS_FILE") === "",
      'TOKEN_KEYS is missing: with a real Redis, the service encrypts tokens. Create a key with: echo "k1:$(openssl rand -base64 32)"',
    ],
    [
      url === "" && (others.workers ?? 1) > 1,
      "WORKERS above 1 needs a real Redis, because each worker would have its own embedded store: set REDIS_URL",
    ],
    [
      url === "" && (others.minReplicasAck ?? 0) > 0,
      "MIN_REPLICAS_ACK needs a real Redis with replicas: set REDIS_URL, or unset MIN_REPLICAS_ACK",
    ],
    [
      given("METRICS_PORT") === given("PORT") && given("PORT") !== "0",
      "METRICS_PORT must differ from PORT: unset METRICS_PORT to serve health and metrics on PORT",
    ],
    [
      others.apiTokens?.some(({ token }) => others.adminTokens?.includes(token)) ?? false,
      "ADMIN_TOKEN must not be in API_TOKENS: a token belongs either to root or to one environment",
    ],
    [
      areTlsFilesRight && clientCa !== undefined && cert === undefined && key === undefined,
      "TLS_CLIENT_CA_FILE needs TLS_CERT_FILE and TLS_KEY_FILE: without TLS, clients send no certificate",
    ],
    [
      areTlsFilesRight && (cert === undefined) !== (key === undefined),
      `${cert === undefined ? "TLS_CERT_FILE" : "TLS_KEY_FILE"} is missing: set both the certificate and its key`,
    ],
    [tlsFault !== undefined, tlsFault ?? ""],
    [
      areOtlpFilesRight && (otlpCert === undefined) !== (otlpKey === undefined),
      `OTEL_EXPORTER_OTLP_CLIENT_${otlpCert === undefined ? "CERTIFICATE" : "KEY"} is missing: set both the certificate and its key`,
    ],
    [
      otlpCert !== undefined && otlpKey !== undefined && !parse.isKeyOf(otlpCert, otlpKey),
      "OTEL_EXPORTER_OTLP_CLIENT_KEY is not the key of the certificate in OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    ],
    [
      /^http:/i.test(otlpTracesEndpoint ?? "") && (otlpCa ?? otlpCert) !== undefined,
      `OTEL_EXPORTER_OTLP_${otlpCa === undefined ? "CLIENT_" : ""}CERTIFICATE needs a collector with TLS: the URL of the collector must start with https://`,
    ],
  ];
  faults.push(...rules.flatMap(([isBroken, fault]) => (isBroken ? [fault] : [])));
  const misspelled = misspelledIn(environ);
  if (faults.length > 0) throw new ConfigError(faults, misspelled);
  const withTexts = (texts: FileContents) => parseConfig(environ, { ...contents, ...texts });
  return Object.freeze({ ...(others as Values), tls, redis, files, withTexts, misspelled });
}

function isFile(name: Setting): name is FileSetting {
  return /_(?:FILE|CERTIFICATE|CLIENT_KEY)$/.test(name);
}

/**
 * Returns the fault that prevents a TLS server from using the files. Returns undefined if the server can use the files.
 * Node or Deno would ignore some of these faults.
 */
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
 * Finds variables whose names differ from a setting only in case, in underscores, or in a missing `_FILE` at the end.
 * If the name of the setting is long, the names may also differ in a few letters.
 */
function misspelledIn(environ: Environ): Misspelled[] {
  const settings = (Object.keys(SETTINGS) as Setting[]).map((name) => [name, lettersOf(name)] as const);
  return Object.keys(environ).flatMap((name) => {
    if (!environ[name] || Object.hasOwn(SETTINGS, name) || isExample(name, environ[name])) return [];
    // The service accepts the `TRACES` variants of only two OpenTelemetry variables: the endpoint and the headers.
    // Report any other `TRACES` variant as misspelled.
    const letters = lettersOf(name).replace(/OTLPTRACES(?!HEADERS)/, "OTLP");
    const [setting] = settings.find(([, ofSetting]) => isMisspelling(letters, ofSetting)) ?? [];
    return setting === undefined ? [] : [{ name, setting }];
  });
}

/**
 * Returns whether a variable is `API_TOKEN` with a plain token as its value. The examples in the README set this
 * variable. If the value looks like an entry of `API_TOKENS` instead, the user has probably misspelled `API_TOKENS`.
 */
function isExample(name: string, value: string): boolean {
  return name === "API_TOKEN" && !/^[\w./@-]+=[^=]/.test(value);
}

function isMisspelling(letters: string, ofSetting: string): boolean {
  if (letters === ofSetting || `${letters}FILE` === ofSetting) return true;
  // Allow fewer different letters in a short name than in a long name, because many other names resemble a short name.
  // Allow only two different letters in the names of OpenTelemetry, because these names resemble each other.
  const differing = ofSetting.startsWith("OTEL") ? 2 : Math.trunc(ofSetting.length / 4.5);
  return distance(letters, ofSetting) <= differing;
}

function lettersOf(name: string): string {
  return name.replaceAll("_", "").toUpperCase();
}
