import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { type Network, parseNetwork } from "../domain/client-address.ts";
import { type EnvironmentName, environmentPath, parseEnvironmentName } from "../domain/environment.ts";
import type { RateLimit } from "../domain/store.ts";
import { USER_GROUP_PREFIX } from "../domain/token.ts";
import type { RingKey } from "../store/encryption.ts";

/** Thrown by the parsers of settings. The message says what to write instead, and never contains a secret. */
export class SettingError extends Error {
  override readonly name = "SettingError";
  readonly faults: readonly string[];
  constructor(...faults: string[]) {
    super(faults.join("; "));
    this.faults = faults;
  }
}

/** Makes a parser that gives undefined for a setting that is not set. */
export function optional<T>(parser: (text: string) => T) {
  return (text: string): T | undefined => (text === "" ? undefined : parser(text));
}

const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
/** A day in milliseconds. */
export const DAY_MS = 86_400_000;

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: DAY_MS };

/** Makes a parser of durations such as `500ms`, `5s`, `2m`, `1h` or `30d`, to milliseconds. It throws SettingError. */
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

/** Writes milliseconds as a setting has them, in the largest unit that divides them. */
function formatDuration(ms: number): string {
  const [unit, size] = Object.entries(UNIT_MS).findLast(([, size]) => ms >= size && ms % size === 0) ?? ["s", 1];
  return `${ms / size}${unit}`;
}

/** Makes a parser of whole numbers. It throws SettingError. */
export function integer(min: number, max: number) {
  return (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new SettingError(`must be a whole number from ${min} to ${max}`);
  };
}

/** Parses `CALLS/DURATION`, such as `1000/10s`, in whole seconds, or `off`. @throws SettingError */
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
    "must be off, or CALLS/DURATION such as 1000/10s: 1 to 1,000,000,000 calls in whole seconds, up to 24h",
  );
}

/** The entries of a list. A comma, the end of a line, or both separate them. */
function entriesOf(text: string): string[] {
  const lines = text.split("\n").flatMap((line) => line.trim() || []);
  const isLast = (i: number) => i === lines.length - 1;
  const entries = lines.flatMap((line, i) => (line.endsWith(",") && !isLast(i) ? line.slice(0, -1) : line).split(","));
  return entries.length > 0 ? entries : [""];
}

/** How many faults of one list an error names. */
const MAX_FAULTS = 20;

/**
 * Parses each entry of a list; an empty text has none.
 *
 * @throws SettingError that names each entry at fault by its place, up to `MAX_FAULTS`; the entry itself may be a secret
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

/** Requires that no two entries of a list are the same in something. @throws SettingError that names two that are */
function requireDifferent<T>(entries: readonly T[], by: (entry: T, i: number) => string, fault: string): void {
  const places = new Map<string, number>();
  entries.map(by).forEach((value, i) => {
    const first = places.get(value);
    if (first !== undefined) throw new SettingError(`entries ${first + 1} and ${i + 1} ${fault}`);
    places.set(value, i);
  });
}

/** Shows an entry that is no secret. */
function quoted(entry: string): string {
  return entry === "" ? "is empty: it" : `is ${JSON.stringify(entry.slice(0, 100))}: it`;
}

/** Parses a comma list of addresses and networks. @throws SettingError */
export function networks(text: string): Network[] {
  return list(text, (entry) => {
    const network = parseNetwork(entry);
    if (!network)
      throw new SettingError(`${quoted(entry)} must be an address or a network, such as 10.0.0.0/8 or fd00::/8`);
    return network;
  });
}

/** Validates a password. @throws SettingError */
export function password(text: string): string {
  if (/\p{Cc}/u.test(text))
    throw new SettingError("holds a control character, such as the line break at the end of a file");
  return text;
}

/** Parses `ID:BASE64,...`. The first key encrypts; all keys decrypt. @throws SettingError */
export function tokenKeys(text: string): RingKey[] {
  const keys = list(text, (entry) => {
    const match = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)$/.exec(entry);
    if (!match) {
      throw new SettingError(
        'must be ID:KEY where ID is 1 to 32 letters, digits, _ or - and KEY is 32 bytes in base64; make one with: echo "k1:$(openssl rand -base64 32)"',
      );
    }
    return { id: match[1] as string, secret: Buffer.from(match[2] as string, "base64") };
  });
  requireDifferent(keys, ({ id }) => id, "have the same ID");
  return keys;
}

/** Removes all tokens. An empty file cannot say this: it may be about to be written. */
const NO_TOKENS = "none";

/** A token of `API_TOKENS`. */
export interface ApiTokenSetting {
  readonly environment: EnvironmentName;
  readonly token: string;
  /** What logs and the audit trail call it; undefined: it has no name. */
  readonly name?: string | undefined;
}

/** Parses `[NAME@]ENV[/TAG]=TOKEN,...`. @throws SettingError */
export function apiTokens(text: string): ApiTokenSetting[] {
  const tokens = list(text === NO_TOKENS ? "" : text, (entry) => {
    const equals = entry.indexOf("=");
    // Neither names nor environments hold an @, so what follows the = is the token, whatever it holds.
    const [, name, path = ""] = /^(?:([A-Za-z0-9._-]{1,64})@)?(.*)$/s.exec(entry.slice(0, Math.max(equals, 0))) ?? [];
    const environment = parseEnvironmentName(path);
    const token = entry.slice(equals + 1);
    if (equals < 0 || !environment) {
      throw new SettingError(
        "must be ENV=TOKEN, ENV/TAG=TOKEN or NAME@ENV/TAG=TOKEN where ENV and NAME are 1 to 64 letters, digits, ., _ or - (ENV with no dot in front) and TAG is Customer or Testing",
      );
    }
    return { environment, token: credential(token), name };
  });
  requireDifferent(tokens, ({ token }) => token, "have the same token; a token is bound to exactly one environment");
  const named = ({ name, environment }: ApiTokenSetting, i: number) =>
    name === undefined ? `${i}` : `${name}@${environmentPath(environment)}`;
  requireDifferent(tokens, named, "have the same NAME in one environment");
  return tokens;
}

/** Parses one token or two, separated by a comma. @throws SettingError */
export function adminTokens(text: string): string[] {
  const tokens = list(text === NO_TOKENS ? "" : text, credential);
  requireDifferent(tokens, String, "have the same token");
  if (tokens.length <= 2) return tokens;
  throw new SettingError("must be one token, or two separated by a comma while one replaces the other");
}

/** Validates a credential that an HTTP header can carry. @throws SettingError */
function credential(text: string): string {
  if (!/^[\x21-\x7e]{16,512}$/.test(text)) {
    throw new SettingError("needs a token of 16 to 512 visible ASCII characters without spaces");
  }
  if (text.startsWith(USER_GROUP_PREFIX)) {
    throw new SettingError("holds a user group token (ugt_...), which is never valid as an API token");
  }
  return text;
}

/** Parses a comma-separated list of origins, or `*`. @throws SettingError */
export function origins(text: string): "*" | string[] {
  if (text === "*") return "*";
  return list(text, (origin) => {
    // A wildcard inside an origin would match nothing.
    if (origin.includes("*") || !URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new SettingError(
        `${quoted(origin)} must be an origin such as https://app.example.com, without a path, or * alone in place of the list`,
      );
    }
    return origin;
  });
}

/** Parses `on` or `off`. @throws SettingError */
export function onOff(text: string): boolean {
  if (text !== "on" && text !== "off") throw new SettingError("must be on or off");
  return text === "on";
}

/** Validates the URL of a collector. It may hold no password, because settings that are URLs are not secret. @throws SettingError */
export function collectorUrl(text: string): string {
  const { username, password } = httpUrl(text, "http://127.0.0.1:4318");
  if (username || password)
    throw new SettingError("must have no user or password; send them in OTEL_EXPORTER_OTLP_HEADERS");
  return text;
}

/** @throws SettingError, with an example */
function httpUrl(text: string, example: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new SettingError(`must be a URL that begins with http:// or https://, such as ${example}`);
}

/** Parses the URL that a service is reached at, without a slash at its end. @throws SettingError */
export function publicUrl(text: string): string {
  const { origin, pathname, search, hash, username, password } = httpUrl(text, "https://groups.example.com");
  if (username || password)
    throw new SettingError(
      "must have no user or password, because every viewer session shows it; leave out what stands before the @",
    );
  if (search || hash) throw new SettingError("must have no query and no fragment");
  return `${origin}${pathname}`.replace(/\/+$/, "");
}

/**
 * Parses `NAME=VALUE,...` as HTTP headers, with `%XX` in values (https://www.w3.org/TR/baggage/).
 *
 * @throws SettingError, which contains none of the values
 */
export function headers(text: string): { readonly [name: string]: string } {
  return Object.fromEntries(
    list(text, (entry) => {
      const [, name, value] = /^([\w!#$%&'*+.^`|~-]+)\s*=\s*([\x20-\x7e]*)$/.exec(entry) ?? [];
      try {
        const decoded = decodeURIComponent(value ?? "\0");
        if (name !== undefined && /^[\x20-\x7e]*$/.test(decoded)) return [name, decoded] as const;
      } catch {
        // A % that begins no %XX.
      }
      throw new SettingError("must be NAME=VALUE in ASCII; write a comma and a % as %XX");
    }),
  );
}

/** Makes a parser of words that it knows. It throws SettingError. */
function oneOf<const Word extends string>(...words: readonly Word[]) {
  return (text: string): Word => {
    const known = words.find((word) => word === text);
    if (!known) throw new SettingError(`must be ${words.length > 1 ? "one of " : ""}${words.join(", ")}`);
    return known;
  };
}

/** Parses a log level: from most output to least. It throws SettingError. */
export const logLevel = oneOf("trace", "debug", "info", "warn", "error", "fatal", "silent");

/** Parses the one protocol to collectors that the service speaks. It throws SettingError. */
export const otlpProtocol = oneOf("http/protobuf");

/** Validates a host name or IP address to listen on. @throws SettingError */
export function host(text: string): string {
  if (!/^[A-Za-z0-9.:_-]+$/.test(text)) throw new SettingError("must be a host name or an IP address without brackets");
  return text;
}

/**
 * The value in a file: its text without what ends the last line.
 *
 * @throws SettingError when there is none, for the file may be about to be written
 */
export function fileValue(setting: string, text: string): string {
  const hint = /^(?:API_TOKENS|ADMIN_TOKEN)_FILE$/.test(setting) ? `; write \`${NO_TOKENS}\` to remove all tokens` : "";
  let end = text.length;
  while (end > 0 && "\r\n".includes(text[end - 1] as string)) end--;
  const value = text.slice(0, end);
  if (value === "") throw new SettingError(`must hold something: the file is empty${hint}`);
  return value;
}

/** Makes a parser of files in PEM. It throws SettingError. */
function pem(isHeld: (text: string) => boolean, what: string) {
  return (text: string): string => {
    if (!isHeld(text)) throw new SettingError(`must hold ${what}`);
    return text;
  };
}

/** Requires a certificate, perhaps with its chain. @throws SettingError */
export const certificate = pem((text) => certificatesOf(text).length > 0, "a certificate in PEM");

/** Requires CAs. With none, Node would trust the system's, and so anybody's. @throws SettingError */
export const authorities = pem((text) => certificatesOf(text).length > 0, "one or more certificates in PEM");

/** Requires a private key. @throws SettingError */
export const privateKey = pem((text) => privateKeyOf(text) !== undefined, "a private key in PEM without a passphrase");

/** Whether a private key is the one of a certificate, both in PEM. */
export function isKeyOf(cert: string, key: string): boolean {
  const privateKey = privateKeyOf(key);
  return privateKey !== undefined && certificatesOf(cert)[0]?.checkPrivateKey(privateKey) === true;
}

/** When the first of the certificates in a PEM text ends, in milliseconds since 1970. */
export function firstEndOf(pem: string): number {
  return Math.min(...certificatesOf(pem).map(({ validTo }) => Date.parse(validTo)));
}

/** The certificates in a PEM text; empty when one of them is invalid. */
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
