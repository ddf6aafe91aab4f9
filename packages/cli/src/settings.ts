import { isIP } from "node:net";
import { parseDuration } from "../../operator/src/times.ts";
import { usageFailure } from "./failures.ts";
import { readPlainFile, readSecretFile } from "./files.ts";
import { type Profile, Profiles } from "./profiles.ts";
import type { Shell } from "./shell.ts";

export interface GlobalOptions {
  readonly url?: string;
  readonly profile?: string;
  readonly tokenFile?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly serverName?: string;
  readonly timeout?: string;
  readonly json?: boolean;
}

export interface Connection {
  readonly url: URL;
  /** CA certificates in PEM. If undefined, the CA certificates of Node are used. */
  readonly ca: string | undefined;
  /** The client certificate, in PEM. `cert` and `key` are either both set or both undefined. */
  readonly cert: string | undefined;
  /** The private key of the client certificate, in PEM. */
  readonly key: string | undefined;
  /**
   * The name that the certificate of the service must contain. If undefined, the certificate must contain the host of
   * the URL.
   */
  readonly serverName: string | undefined;
  /** The timeout of a call, including retries, in milliseconds. */
  readonly timeoutMs: number;
  /** See `unusedProxyOf`. */
  readonly unusedProxy: string | undefined;
}

/**
 * Returns the name of a proxy variable that is set but that Node ignores, such as `HTTPS_PROXY`. Returns undefined if
 * no such variable is set.
 */
export function unusedProxyOf(env: Shell["env"]): string | undefined {
  const isUsed = env["NODE_USE_ENV_PROXY"] === "1" && process.allowedNodeEnvironmentFlags.has("--use-env-proxy");
  if (isUsed) return undefined;
  return ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"].find((name) => env[name]);
}

/** Returns the URL of a service without a trailing slash. */
export function urlText({ url }: Pick<Connection, "url">): string {
  return url.href.replace(/\/$/, "");
}

const DEFAULT_TIMEOUT_MS = 10_000;
const MAX_TIMEOUT_MS = 3_600_000;

/** The settings of a command. Options override environment variables. Environment variables override the profile. */
export class Settings {
  readonly profiles: Profiles;
  readonly #options: GlobalOptions;
  readonly #env: Shell["env"];

  constructor(options: GlobalOptions, env: Shell["env"]) {
    this.#options = options;
    this.#env = env;
    this.profiles = new Profiles(env);
  }

  async profileName(): Promise<string> {
    return this.#given("profile", "UGS_PROFILE").text ?? (await this.profiles.current());
  }

  /**
   * Returns the URL of `--url` or `UGS_URL`. Returns undefined if both are unset.
   *
   * @throws Failure if the URL is not valid
   */
  givenUrl(): URL | undefined {
    const { source, text } = this.#given("url", "UGS_URL");
    return text === undefined ? undefined : parseUrl(source, text);
  }

  /** @throws Failure if the URL is missing, or if a setting is not valid */
  async connection(): Promise<Connection> {
    const given = this.givenUrl();
    const profile = await this.#profileFor(given);
    const url = given ?? (profile && parseUrl("the profile's url", profile.url));
    if (!url)
      throw usageFailure(
        "no URL is set",
        "run: ugs login --url URL, or give --url URL or UGS_URL, such as http://127.0.0.1:8080",
      );
    return this.connectionTo(url, profile);
  }

  /** @throws Failure if a setting is not valid */
  async connectionTo(url: URL, profile?: Profile): Promise<Connection> {
    const { caFile, certFile, keyFile, serverName } = this.tlsFiles(profile);
    if ((certFile === undefined) !== (keyFile === undefined))
      throw usageFailure("give both --cert-file and --key-file, or neither");
    return {
      url,
      ca: caFile && (await readCertificates(caFile)),
      cert: certFile && (await readCertificates(certFile)),
      key: keyFile && (await readSecretFile(keyFile)),
      serverName,
      timeoutMs: this.#timeoutMs(),
      unusedProxy: unusedProxyOf(this.#env),
    };
  }

  tlsFiles(profile?: Profile) {
    return {
      caFile: this.#given("caFile", "UGS_CA_FILE").text ?? profile?.caFile,
      certFile: this.#given("certFile", "UGS_CERT_FILE").text ?? profile?.certFile,
      keyFile: this.#given("keyFile", "UGS_KEY_FILE").text ?? profile?.keyFile,
      serverName: this.#given("serverName", "UGS_SERVER_NAME").text ?? profile?.serverName,
    };
  }

  /** Returns the API token. @throws Failure if no API token is set, or if the API token or its file is not valid */
  async token(): Promise<string> {
    const token = await this.givenToken();
    if (token !== undefined) return token;
    const url = this.givenUrl();
    const profile = await this.#profileFor(url);
    if (profile) return parseToken("the profile", profile.token);
    const name = await this.profileName();
    if (url && (await this.profiles.read(name)))
      throw usageFailure(
        `the profile ${name} is for another service, so ugs does not send its token to ${urlText({ url })}`,
        `give --token-file FILE or UGS_TOKEN, or run: ugs login --profile NAME --url ${urlText({ url })}`,
      );
    throw usageFailure("no token is set", "run: ugs login, or give --token-file FILE or UGS_TOKEN");
  }

  /**
   * Returns the API token of the options or the environment variables. Returns undefined if they contain no API token.
   *
   * @throws Failure if the API token or the file with the API token is not valid
   */
  async givenToken(): Promise<string | undefined> {
    return tokenFrom(this.#env, "UGS_TOKEN", this.#options.tokenFile);
  }

  /**
   * Returns the profile that the command uses, or undefined in these cases:
   *
   * - The profile does not exist.
   * - `url` is set, and the profile has another URL. `ugs` sends the token of a profile only to the service that
   *   accepted this token at login.
   * - `url` is set, the command names no profile, and the folder of the profiles is unreadable. If `url` is set, the
   *   command may need no profile.
   *
   * @throws Failure if the command names a profile that does not exist
   * @throws Failure if the profile, or the name of the current profile, cannot be read
   */
  async #profileFor(url: URL | undefined): Promise<Profile | undefined> {
    const isNamed = this.#given("profile", "UGS_PROFILE").text !== undefined;
    if (url && !isNamed && !(await this.profiles.areReadable())) return undefined;
    const name = await this.profileName();
    const profile = await this.profiles.read(name);
    if (!profile && isNamed)
      throw usageFailure(`the profile ${name} does not exist`, `run: ugs login --profile ${name}, or ugs profile list`);
    if (!profile || !url) return profile;
    return URL.canParse(profile.url) && new URL(profile.url).href === url.href ? profile : undefined;
  }

  #timeoutMs(): number {
    const { source, text } = this.#given("timeout", "UGS_TIMEOUT");
    if (text === undefined) return DEFAULT_TIMEOUT_MS;
    const ms = parseDuration(text);
    if (ms === undefined || ms === 0 || ms > MAX_TIMEOUT_MS)
      throw usageFailure(`${source} must be a duration up to 1h, such as 500ms, 5s or 2m`);
    return ms;
  }

  /** Returns the value of a setting, and the option or variable that sets it. An empty variable counts as unset. */
  #given(option: "url" | "profile" | "timeout" | keyof Omit<Profile, "token">, variable: string) {
    const text = this.#options[option];
    if (text !== undefined) return { source: `--${option}`, text };
    return { source: variable, text: this.#env[variable] || undefined };
  }
}

/** Parses the URL of a service. @throws Failure, with `source` in its message, if the text is not a valid URL */
export function parseUrl(source: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const example = "such as http://127.0.0.1:8080 or https://groups.example.com";
  if (!url || !/^https?:$/.test(url.protocol))
    throw usageFailure(`${source} must be an http or https URL`, `write the URL with its scheme, ${example}`);
  if (url.username !== "" || url.password !== "")
    throw usageFailure(
      `${source} must not contain a user or a password`,
      "ugs authenticates with a token; to store a token, run: ugs login",
    );
  if (url.search !== "" || url.hash !== "")
    throw usageFailure(`${source} must not have a query or fragment`, `write a URL ${example}`);
  return url;
}

export function isLoopback({ hostname }: URL): boolean {
  if (hostname === "localhost" || hostname === "[::1]") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}

/**
 * Reads a token from the first of these sources that is set: the file at the path `file`, the environment variable
 * `variable`, or the file whose path is in the environment variable `${variable}_FILE`. An empty variable counts as
 * unset. Returns undefined if no source is set.
 *
 * @throws Failure if the text is not a token, or if the file cannot be read
 */
export async function tokenFrom(env: Shell["env"], variable: "UGS_TOKEN" | "UGS_EXPLO_TOKEN", file?: string) {
  const text = env[variable];
  if (file === undefined && text) return parseToken(variable, text);
  const path = file ?? (env[`${variable}_FILE`] || undefined);
  return path === undefined ? undefined : parseToken(path, await readSecretFile(path));
}

/** @throws Failure if the text is empty, or contains a space or a character that is not printable ASCII */
export function parseToken(source: string, text: string): string {
  const token = text.trim();
  if (token === "") throw usageFailure(`${source} is empty`, "give the token");
  if (!/^[\x21-\x7e]+$/.test(token))
    throw usageFailure(`${source} contains spaces or other characters that no token has`, "give only the token");
  return token;
}

async function readCertificates(path: string): Promise<string> {
  const text = await readPlainFile(path);
  if (!text.includes("-----BEGIN CERTIFICATE-----"))
    throw usageFailure(
      `${path} contains no certificate in PEM`,
      "the file must have a line -----BEGIN CERTIFICATE-----",
    );
  return text;
}
