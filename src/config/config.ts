import { createSecureContext } from "node:tls";
import { distance } from "fastest-levenshtein";
import { readRedisUrl } from "../store/connection/url.ts";
import { type FileContent, FileReader } from "./file-reader.ts";
import * as parse from "./parse.ts";
import { defaultOf, type FileSetting, SETTINGS, type Setting } from "./settings.ts";

/** A variable of the environment that looks like a setting and is none. */
interface Misspelled {
  readonly name: string;
  /** The setting that it looks like. */
  readonly setting: Setting;
}

/** Lists every fault of the settings. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly faults: readonly string[];
  /** @param misspelled variables that may explain the faults */
  constructor(faults: readonly string[], misspelled: readonly Misspelled[] = []) {
    const hints = misspelled.map(({ name, setting }) => `${name} is set, but is no setting: is ${setting} meant?`);
    const lines = [...faults, ...hints].map((line) => `\n  ${line}`);
    super(`the settings have ${faults.length === 1 ? "a fault" : "faults"}:${lines.join("")}`);
    this.faults = faults;
  }
}

/** The source of the settings: environment variables. */
export type Environ = { readonly [name: string]: string | undefined };

/** A file that a setting names, and the text that it held when the settings were read. */
interface SettingFile {
  readonly setting: FileSetting;
  readonly path: string;
  readonly text: string;
}

type Values = { readonly [Name in Setting as (typeof SETTINGS)[Name][0]]: ReturnType<(typeof SETTINGS)[Name][1]> };

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
  /** The same settings with other texts of these files. @throws ConfigError */
  readonly withTexts: (texts: FileContents) => Readonly<Config>;
  readonly misspelled: readonly Misspelled[];
}

/** The texts of files that settings name. */
type FileTexts = { readonly [name in FileSetting]?: string };

/** The contents of the files that settings name. */
type FileContents = { readonly [name in FileSetting]?: FileContent };

/**
 * Reads the settings and the files that they name. An unset and an empty variable both mean the default.
 *
 * @throws ConfigError naming every fault
 */
export async function loadConfig(environ: Environ): Promise<Readonly<Config>> {
  const settings = (Object.keys(SETTINGS) as Setting[]).filter(isFile);
  const paths = settings.flatMap((name) => (environ[name] ? [[name, environ[name]] as const] : []));
  return parseConfig(environ, Object.fromEntries(await new FileReader().readAll(paths)));
}

/** @param contents of all files that the settings name @throws ConfigError naming every fault */
function parseConfig(environ: Environ, contents: FileContents): Readonly<Config> {
  const given = (name: Setting): string => environ[name] || defaultOf(name);
  /** The settings whose values are in files. */
  const inFiles = new Set<Setting>();
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
      if (path !== "" && direct in SETTINGS) {
        if (given(direct) !== "") throw new parse.SettingError(`is set beside ${direct}: unset one of them`);
        inFiles.add(direct);
      }
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
  const withTexts = (others: FileContents) => parseConfig(environ, { ...textsOf(files), ...others });
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
    const setting = settings.find((each) => isMisspelling(lettersOf(name), lettersOf(each)));
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
