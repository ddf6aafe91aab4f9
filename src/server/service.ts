import { createHmac } from "node:crypto";
import { type ApiTokens, type BoundPrincipal, ROOT, type StaticToken } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import type { ApiTokenSetting } from "../config/parse.ts";
import type { FileSetting } from "../config/settings.ts";
import type { Environment } from "../domain/environment.ts";
import type { Log } from "../observability/log.ts";
import type { Traces } from "../observability/traces/traces.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { deriveKey, type RingKey, type TokenCipher } from "../store/encryption.ts";
import type { RedisTokenKeys } from "../store/secret-keys/token-keys.ts";
import type { DevelopmentTokens } from "./open-api-tokens.ts";
import { collectorTlsOf } from "./open-traces.ts";
import type { RedisState } from "./redis-state.ts";
import { requireSuccessor } from "./reload.ts";
import { secretsOf } from "./secrets.ts";

const STATIC_ID_DIGITS = 10;

interface ServiceParts {
  readonly log: Log;
  readonly client: StoreClient;
  readonly opened: Promise<void>;
  readonly state: RedisState;
  readonly cipher: TokenCipher;
  readonly tokenKeys: RedisTokenKeys;
  readonly authenticator: ApiTokens;
  readonly traces: Traces | undefined;
}

export class Service {
  settings: Config;
  isStarted = false;
  readonly #development: DevelopmentTokens;
  readonly #parts: ServiceParts;

  constructor(settings: Config, { development, ...parts }: ServiceParts & { readonly development: DevelopmentTokens }) {
    this.settings = settings;
    this.#development = development;
    this.#parts = parts;
  }

  /**
   * Waits for Redis, checks the data in Redis, and accepts the tokens of the settings. The service is ready afterwards.
   *
   * @throws StoreMisconfigured, StoreUnavailable, TooFewReplicas
   */
  async start(): Promise<void> {
    const { opened, state } = this.#parts;
    await opened;
    await state.check();
    // If `reload` replaces the settings while `#useTokens` runs, call `#useTokens` again with the new settings.
    for (let used: Config | undefined; used !== this.settings; ) {
      used = this.settings;
      await this.#useTokens(used);
    }
    state.watch();
    this.isStarted = true;
  }

  /** Applies changed settings, except the certificates of the port. Rejects if the service cannot use the settings. */
  async reload(next: Config, changed: ReadonlySet<FileSetting>): Promise<void> {
    const { log, client, traces } = this.#parts;
    log.redact(secretsOf(next));
    if (changed.has("TOKEN_KEYS_FILE")) await this.#useRing(next.tokenKeys);
    if (next.redis) await client.changeSecrets(next.redis.secrets);
    if ([...changed].some((setting) => setting.startsWith("OTEL_"))) traces?.useTls(collectorTlsOf(next));
    const areTokensChanged = changed.has("API_TOKENS_FILE") || changed.has("ADMIN_TOKEN_FILE");
    if (areTokensChanged && this.isStarted) await this.#useTokens(next);
    this.settings = next;
  }

  async #useRing(ring: readonly RingKey[]): Promise<void> {
    const { client, cipher, state, tokenKeys } = this.#parts;
    await requireSuccessor(cipher.ring, ring, this.settings.redis && { client, tokenKeys });
    cipher.use(ring);
    await state.noteKeyUse();
  }

  async #useTokens({ apiTokens, adminTokens }: Config): Promise<void> {
    // If the last key of TOKEN_KEYS changes, each token that has no name gets a new id. See
    // docs/operations/rotate-keys.md.
    const { secret } = this.#parts.cipher.ring.at(-1) as RingKey;
    const key = deriveKey(secret, "id of a static API token");
    const bound = [...apiTokens, ...this.#development.apiTokens].map((setting) => this.#boundToken(setting, key));
    const root = [...adminTokens, ...this.#development.adminTokens].map((token) => {
      return { token, principal: ROOT, lookUp: async () => ROOT };
    });
    this.#parts.authenticator.use([...(await Promise.all(bound)), ...root]);
  }

  /**
   * Returns an API token of the settings. If a token has no name, its id is a digest of the token, so the id does not
   * depend on the order of the tokens. The digest is keyed, so that readers of the log cannot use it to test guesses of
   * the token.
   */
  async #boundToken({ token, name, environment: wanted }: ApiTokenSetting, key: Uint8Array): Promise<StaticToken> {
    const { state } = this.#parts;
    const id = `static-${name ?? createHmac("sha256", key).update(token).digest("hex").slice(0, STATIC_ID_DIGITS)}`;
    const displayName = name ?? "an entry of API_TOKENS without a name";
    const principalOf = (environment: Environment): BoundPrincipal => {
      return { id, displayName, role: "manage", environment, expireTime: undefined };
    };
    const known = await state.useIfThere(wanted);
    const lookUp = async () => principalOf(await state.use(wanted));
    return { token, principal: known && principalOf(known), lookUp };
  }
}
