import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { type Network, parseNetwork } from "../domain/client-address.ts";
import { DAY_MS, HOUR_MS } from "../domain/durations.ts";
import { type EnvironmentName, environmentPath, parseEnvironmentName } from "../domain/environment.ts";
import type { RateLimit } from "../domain/store.ts";
import { USER_GROUP_PREFIX } from "../domain/token.ts";
import type { RingKey } from "../store/encryption.ts";

/** The value of a setting is invalid. The message contains the remedy, and never a secret. */
export class SettingError extends Error {
  readonly faults: readonly string[];
  constructor(...faults: string[]) {
    super(faults.join("; "));
    this.faults = faults;
  }
}

export function optional<T>(parser: (text: string) => T) {
  return (text: string): T | undefined => (text === "" ? undefined : parser(text));
}

const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: HOUR_MS, d: DAY_MS };

/** Returns a parser of durations such as `500ms`, `5s`, `2m`, `1h` or `30d`. The parser returns milliseconds. */
export function duration(min: number, max: number) {
  return (text: string): number => {
    const match = DURATION.exec(text);
    const ms = match ? Number(match[1]) * (UNIT_MS[match[2] as string] as number) : Number.NaN;
    if (ms >= min && ms <= max) return Math.round(ms);
    throw new SettingError(
      `must be a duration from ${formatDuration(min)} to ${formatDuration(max)}, such as 500ms, 5s or 2m`,
    );
  };
}

/** Formats milliseconds as in a setting, such as `90s`. */
function formatDuration(ms: number): string {
  const [unit, size] = Object.entries(UNIT_MS).findLast(([, size]) => ms >= size && ms % size === 0) ?? ["s", 1];
  return `${ms / size}${unit}`;
}

export function integer(min: number, max: number) {
  return (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new SettingError(`must be a whole number from ${min} to ${max}`);
  };
}

/** Parses `CALLS/DURATION`, such as `1000/10s`, with a duration in whole seconds. Returns undefined for `off`. */
export function rateLimit(text: string): RateLimit | undefined {
  if (text === "off") return undefined;
  const [calls = "", window = "", ...rest] = text.split("/");
  try {
    const max = integer(1, 1_000_000_000)(calls);
    const windowMs = duration(1000, DAY_MS)(window);
    if (rest.length === 0 && windowMs % 1000 === 0) return { max, windowSeconds: windowMs / 1000 };
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
  }
  throw new SettingError(
    "must be off, or CALLS/DURATION such as 1000/10s: CALLS is from 1 to 1,000,000,000, and DURATION is from 1s to 24h in whole seconds",
  );
}

function entriesOf(text: string): string[] {
  const lines = text.split("\n").flatMap((line) => line.trim() || []);
  const isLast = (i: number) => i === lines.length - 1;
  const entries = lines.flatMap((line, i) => (line.endsWith(",") && !isLast(i) ? line.slice(0, -1) : line).split(","));
  return entries.length > 0 ? entries : [""];
}

const MAX_FAULTS = 20;

/**
 * Parses each entry of a list. The error contains the positions of up to `MAX_FAULTS` invalid entries. This function
 * does not quote entries, because they may be secret. If the entries are not secret, `parseEntry` may quote them.
 */
function list<T>(text: string, parseEntry: (entry: string) => T): T[] {
  if (text === "") return [];
  const faults: string[] = [];
  const values = entriesOf(text).flatMap((entry, i) => {
    try {
      return [parseEntry(entry.trim())];
    } catch (error) {
      if (!(error instanceof SettingError)) throw error;
      faults.push(...error.faults.map((fault) => `entry ${i + 1} ${fault}`));
      return [];
    }
  });
  const [shown, others] = [faults.slice(0, MAX_FAULTS), faults.length - MAX_FAULTS];
  if (others > 0) shown.push(`has ${others} more faults in its entries`);
  if (shown.length > 0) throw new SettingError(...shown);
  return values;
}

/** @param by returns the part of an entry that must be unique */
function requireDifferent<T>(entries: readonly T[], by: (entry: T, i: number) => string, fault: string): void {
  const firstIndexes = new Map<string, number>();
  entries.map(by).forEach((value, i) => {
    const first = firstIndexes.get(value);
    if (first !== undefined) throw new SettingError(`entries ${first + 1} and ${i + 1} ${fault}`);
    firstIndexes.set(value, i);
  });
}

/** Returns the first words of a fault. They quote the entry, so do not use this function for secrets. */
function quoted(entry: string): string {
  return entry === "" ? "is empty: it" : `is ${JSON.stringify(entry.slice(0, 100))}: it`;
}

export function networks(text: string): Network[] {
  return list(text, (entry) => {
    const network = parseNetwork(entry);
    if (!network)
      throw new SettingError(`${quoted(entry)} must be an address or a network, such as 10.0.0.0/8 or fd00::/8`);
    return network;
  });
}

export function password(text: string): string {
  if (/\p{Cc}/u.test(text)) throw new SettingError("contains a control character, such as a line break in the file");
  return text;
}

/** Parses `ID:BASE64,...`. */
export function tokenKeys(text: string): RingKey[] {
  const keys = list(text, (entry) => {
    const match = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)$/.exec(entry);
    if (!match) {
      throw new SettingError(
        'must be ID:KEY. ID has 1 to 32 letters, digits, _ or -, and KEY is 32 bytes in base64. Create a key with: echo "k1:$(openssl rand -base64 32)"',
      );
    }
    return { id: match[1] as string, secret: Buffer.from(match[2] as string, "base64") };
  });
  requireDifferent(keys, ({ id }) => id, "have the same ID");
  return keys;
}

/** This value removes all tokens. An empty file does not remove them, because a program may be writing the file. */
const NO_TOKENS = "none";

export interface ApiTokenSetting {
  readonly environment: EnvironmentName;
  readonly token: string;
  /** The name that the log and the audit trail show. */
  readonly name?: string | undefined;
}

/** Parses `[NAME@]ENV[/TAG]=TOKEN,...`. */
export function apiTokens(text: string): ApiTokenSetting[] {
  const tokens = list(text === NO_TOKENS ? "" : text, (entry) => {
    const equals = entry.indexOf("=");
    // Names and environments contain no @ and no =, so the token starts after the first =.
    const [, name, path = ""] = /^(?:([A-Za-z0-9._-]{1,64})@)?(.*)$/s.exec(entry.slice(0, Math.max(equals, 0))) ?? [];
    const environment = parseEnvironmentName(path);
    const token = entry.slice(equals + 1);
    if (equals < 0 || !environment) {
      throw new SettingError(
        "must be ENV=TOKEN, ENV/TAG=TOKEN or NAME@ENV/TAG=TOKEN. ENV and NAME have 1 to 64 letters, digits, ., _ or -; ENV does not start with a dot; TAG is Customer or Testing",
      );
    }
    return { environment, token: credential(token), name };
  });
  requireDifferent(tokens, ({ token }) => token, "have the same token: a token belongs to exactly one environment");
  const named = ({ name, environment }: ApiTokenSetting, i: number) =>
    name === undefined ? `${i}` : `${name}@${environmentPath(environment)}`;
  requireDifferent(tokens, named, "have the same NAME in one environment");
  return tokens;
}

/** Parses one token, or two tokens separated by a comma. */
export function adminTokens(text: string): string[] {
  const tokens = list(text === NO_TOKENS ? "" : text, credential);
  requireDifferent(tokens, String, "have the same token");
  if (tokens.length <= 2) return tokens;
  throw new SettingError("must be one token, or two tokens separated by a comma");
}

function credential(text: string): string {
  if (!/^[\x21-\x7e]{16,512}$/.test(text)) {
    throw new SettingError("needs a token of 16 to 512 visible ASCII characters without spaces");
  }
  if (text.startsWith(USER_GROUP_PREFIX)) {
    throw new SettingError("contains a user group token (ugt_...), which is not an API token");
  }
  return text;
}

export function origins(text: string): "*" | string[] {
  if (text === "*") return "*";
  return list(text, (origin) => {
    // A wildcard inside an origin would match no page.
    if (origin.includes("*") || !URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new SettingError(
        `${quoted(origin)} must be an origin without a path, such as https://app.example.com, or a single * instead of the list`,
      );
    }
    return origin;
  });
}

export function onOff(text: string): boolean {
  if (text !== "on" && text !== "off") throw new SettingError("must be on or off");
  return text === "on";
}

/** Parses the URL of a collector. The URL must not contain a password, because the log may show URLs. */
export function collectorUrl(text: string): string {
  const { username, password } = httpUrl(text, "http://127.0.0.1:4318");
  if (username || password) throw new SettingError("must not have a user or password: use OTEL_EXPORTER_OTLP_HEADERS");
  return text;
}

function httpUrl(text: string, example: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new SettingError(`must be a URL with http:// or https://, such as ${example}`);
}

/** Removes slashes at the end of the URL. */
export function publicUrl(text: string): string {
  const { origin, pathname, search, hash, username, password } = httpUrl(text, "https://groups.example.com");
  if (username || password)
    throw new SettingError(
      "must not have a user or password, because every viewer session contains the URL: remove the part before the @",
    );
  if (search || hash) throw new SettingError("must not have a query or a fragment");
  return `${origin}${pathname}`.replace(/\/+$/, "");
}

/**
 * Parses `NAME=VALUE,...` as HTTP headers, with `%XX` in values (https://www.w3.org/TR/baggage/). The error contains no
 * values, because they may be secret.
 */
export function headers(text: string): { readonly [name: string]: string } {
  return Object.fromEntries(
    list(text, (entry) => {
      const [, name, value] = /^([\w!#$%&'*+.^`|~-]+)\s*=\s*([\x20-\x7e]*)$/.exec(entry) ?? [];
      try {
        const decoded = decodeURIComponent(value ?? "\0");
        if (name !== undefined && /^[\x20-\x7e]*$/.test(decoded)) return [name, decoded] as const;
      } catch {
        // The value has an invalid percent-encoding. The error below reports this.
      }
      throw new SettingError("must be NAME=VALUE in ASCII; in VALUE, write %2C for a comma and %25 for a %");
    }),
  );
}

function oneOf<const Word extends string>(...words: readonly Word[]) {
  return (text: string): Word => {
    const known = words.find((word) => word === text);
    if (!known) throw new SettingError(`must be ${words.length > 1 ? "one of " : ""}${words.join(", ")}`);
    return known;
  };
}

/** The levels are in the order from most to least output. */
export const logLevel = oneOf("trace", "debug", "info", "warn", "error", "fatal", "silent");

export const otlpProtocol = oneOf("http/protobuf");

export function host(text: string): string {
  if (!/^[A-Za-z0-9.:_-]+$/.test(text)) throw new SettingError("must be a host name or an IP address without brackets");
  return text;
}

/** Removes line breaks at the end. Refuses an empty file, because a program may be writing the file. */
export function fileValue(setting: string, text: string): string {
  const hint = /^(?:API_TOKENS|ADMIN_TOKEN)_FILE$/.test(setting) ? `; write \`${NO_TOKENS}\` to remove all tokens` : "";
  let end = text.length;
  while (end > 0 && "\r\n".includes(text[end - 1] as string)) end--;
  const value = text.slice(0, end);
  if (value === "") throw new SettingError(`must have a value: the file is empty${hint}`);
  return value;
}

function pem(isValid: (text: string) => boolean, content: string) {
  return (text: string): string => {
    if (!isValid(text)) throw new SettingError(`must contain ${content}`);
    return text;
  };
}

export const certificate = pem((text) => certificatesOf(text).length > 0, "a certificate in PEM");

/** Refuses a file that contains no certificate. If the list of CAs were empty, Node would trust its default CAs. */
export const authorities = pem((text) => certificatesOf(text).length > 0, "one or more certificates in PEM");

export const privateKey = pem((text) => privateKeyOf(text) !== undefined, "a private key in PEM without a passphrase");

/** Returns whether a private key belongs to a certificate. Both texts are in PEM. */
export function isKeyOf(cert: string, key: string): boolean {
  const privateKey = privateKeyOf(key);
  return privateKey !== undefined && certificatesOf(cert)[0]?.checkPrivateKey(privateKey) === true;
}

/** Returns the earliest expiry time of the certificates in a PEM text, in milliseconds since 1970. */
export function earliestExpiryOf(pem: string): number {
  return Math.min(...certificatesOf(pem).map(({ validTo }) => Date.parse(validTo)));
}

/** Returns the certificates in a PEM text. Returns an empty list if one of the certificates is invalid. */
function certificatesOf(pem: string): X509Certificate[] {
  try {
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    return blocks.map((block) => new X509Certificate(block));
  } catch {
    return [];
  }
}

function privateKeyOf(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
