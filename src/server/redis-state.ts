import { setTimeout as pause } from "node:timers/promises";
import type { Config } from "../config/config.ts";
import { AT_START } from "../domain/audit.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../domain/environment.ts";
import { DataNotAcceptable, EnvironmentNotFound, StoreUnavailable } from "../domain/errors.ts";
import type { EnvironmentStore } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { StoreMisconfigured } from "../store/connection/errors.ts";
import { durabilityWarnings, memoryAdvice } from "../store/connection/requirements.ts";
import type { TokenCipher } from "../store/encryption.ts";
import type { StoreIdentity } from "../store/identity.ts";
import { FORMAT_KEY } from "../store/keys.ts";
import { checkTokenKeys, NOTE_INTERVAL_MS, noteKeyUse } from "../store/secret-keys/ring.ts";
import type { RedisTokenKeys } from "../store/secret-keys/token-keys.ts";
import { isReporter } from "./worker.ts";

/** How long until what could not be checked or restored is tried again, in milliseconds. */
const RETRY_MS = 1000;

/** How often a start looks whether a check that was put off is made, in milliseconds. */
const PUT_OFF_MS = 5;

/** How often it is checked whether the environments are there: as often as API tokens are, within these bounds in milliseconds. */
const CHECK_MS = { least: 1000, most: 60_000 };

/** How often the identity of Redis is checked, in milliseconds: it may be emptied while it is connected. */
const IDENTITY_MS = 1000;

/** What the state of Redis is kept with. */
interface RedisStateDeps {
  readonly config: Pick<Config, "apiTokenCacheMs" | "minReplicasAck" | "redisUrl">;
  readonly cipher: Pick<TokenCipher, "ring">;
  readonly tokenKeys: Pick<RedisTokenKeys, "requireUnneeded">;
  readonly client: StoreClient;
  /** Undefined: the embedded store, which nothing else serves. */
  readonly identity: StoreIdentity | undefined;
  readonly environments: Pick<EnvironmentStore, "ensureEnvironment">;
  readonly logger: Logger;
  /** Told why Redis cannot be used, when a check fails that could not be made at the start. */
  readonly onUnusable: (error: StoreMisconfigured) => void;
}

/**
 * What this process needs of the data in Redis: the layout of this release, the check values of its ring of keys, and the
 * environments of `API_TOKENS`. All are checked at the start. Where Redis has several shards, one that is away does not
 * prevent the start: what it holds is checked when it comes. And all are made again when Redis comes back without them,
 * so that a wrong ring is still detected, and no other environment gets the same numbers.
 */
export class RedisState {
  /** Told of each environment in use that is deleted, or is another one by now. */
  onGone: (environment: Environment) => void = () => {};
  readonly #deps: RedisStateDeps;
  readonly #inUse = new Map<string, Environment>();
  /** The paths of environments of which the log says that they are deleted. */
  readonly #toldDeleted = new Set<string>();
  #isChecked = false;
  #isRunning = false;
  #isFailing = false;
  #isClosed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #timers: ReturnType<typeof setInterval>[] = [];

  constructor(deps: RedisStateDeps) {
    this.#deps = deps;
  }

  /**
   * Checks layout and keys at the start, and tells what an operator should change.
   *
   * @throws StoreMisconfigured, StoreUnavailable, TooFewReplicas
   */
  async check(): Promise<void> {
    const { client, config, logger } = this.#deps;
    await this.#unlessAway(this.#check(), "the layout of its data and TOKEN_KEYS");
    // Nobody is served with data that may have another layout or key. One shard of several may be away, though.
    while (!this.#isChecked && client.nodes.masters().length < 2) {
      if (this.#isClosed) throw new StoreUnavailable(new Error("closed"));
      await pause(PUT_OFF_MS, undefined, { ref: false });
    }
    if (!isReporter() || !this.#deps.identity) return;
    const warnings = await this.#unlessAway(durabilityWarnings(client, config.minReplicasAck), "what it keeps");
    for (const warning of warnings ?? []) logger.warn(warning);
    const advice = await memoryAdvice(client).catch(() => undefined);
    if (advice !== undefined) logger.info(advice);
  }

  /**
   * An environment that this process uses, which is made if it is missing.
   *
   * @throws EnvironmentNotFound when it is deleted; StoreUnavailable, TooFewReplicas, RecordUnreadable
   */
  async use(name: EnvironmentName): Promise<Environment> {
    const path = environmentPath(name);
    const known = this.#inUse.get(path);
    if (known) return known;
    const found = await this.#deps.environments.ensureEnvironment(name, AT_START).catch((error: unknown) => {
      if (error instanceof EnvironmentNotFound) this.#tellDeleted(path);
      throw error;
    });
    this.#toldDeleted.delete(path);
    this.#inUse.set(path, found);
    return found;
  }

  /** The same at the start; undefined when it is deleted, or cannot be known because its shard is away. */
  useIfThere(name: EnvironmentName): Promise<Environment | undefined> {
    const path = environmentPath(name);
    return this.#unlessAway(this.use(name).catch(unlessDeleted), `the environment ${path}`);
  }

  /** Leaves alone the environments that are no longer used. @param names those that are */
  useOnly(names: readonly EnvironmentName[]): void {
    const paths = new Set(names.map(environmentPath));
    for (const path of this.#inUse.keys()) if (!paths.has(path)) this.#inUse.delete(path);
  }

  /** Forgets an environment in use that is deleted, or is another one by now. */
  forget(environment: Environment): void {
    const path = environmentPath(environment);
    if (this.#inUse.get(path)?.number === environment.number) this.#inUse.delete(path);
    this.onGone(environment);
  }

  /** Forgets an environment whose deletion has begun, as another worker or this one has announced. */
  deleted(environment: Environment): void {
    const path = environmentPath(environment);
    const isInUse = this.#inUse.get(path)?.number === environment.number;
    this.forget(environment);
    if (isInUse) this.#tellDeleted(path);
  }

  /** Notes under which key this process encrypts; when that fails, the next time does it. */
  async noteKeyUse(): Promise<void> {
    const { client, config, cipher } = this.#deps;
    const [current] = cipher.ring;
    // The embedded store serves this process alone.
    if (config.redisUrl !== undefined && current) await noteKeyUse(client, current).catch(() => {});
  }

  /** Checks from time to time whether the environments are there, and notes which key is in use. */
  watch(): void {
    const { config, identity } = this.#deps;
    const note = async () => {
      await identity?.check().catch(() => {});
      await this.noteKeyUse();
      await identity?.noteTime().catch(() => {});
    };
    void note();
    const checkMs = Math.min(Math.max(config.apiTokenCacheMs, CHECK_MS.least), CHECK_MS.most);
    this.#timers.push(
      setInterval(() => void note(), NOTE_INTERVAL_MS).unref(),
      setInterval(() => void this.#restoreEnvironments().catch(() => {}), checkMs).unref(),
    );
    if (identity) this.#timers.push(setInterval(() => void identity.check().catch(() => {}), IDENTITY_MS).unref());
  }

  /** Checks and restores what Redis may have lost; to be called whenever Redis is back. */
  restore(): void {
    // The start makes the first check.
    if (this.#timers.length === 0) return;
    // Each connection tells when it is ready. The last one is waited for, unless it does not come.
    if (this.#deps.client.nodes.isReady() && !this.#isRunning) void this.#run();
    else this.#later();
  }

  /**
   * Accepts what Redis holds as the data of this service, and restores what it needs there.
   *
   * @throws StoreUnavailable, TooFewReplicas; DataNotAcceptable when it has another layout, or other keys
   */
  async accept(): Promise<void> {
    const { client, identity, cipher } = this.#deps;
    // Nothing but this process writes to the embedded store.
    if (!identity) return;
    try {
      const unguarded = client.unguarded();
      requireLayout((await unguarded.run("format", "get", [FORMAT_KEY])) ?? LAYOUT);
      await checkTokenKeys(unguarded, cipher.ring);
    } catch (error) {
      throw error instanceof StoreMisconfigured ? new DataNotAcceptable(error.message) : error;
    }
    await identity.accept();
    await this.#run();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const timer of this.#timers) clearInterval(timer);
  }

  async #run(): Promise<void> {
    const { logger } = this.#deps;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isRunning = true;
    try {
      await this.#deps.identity?.check();
      // Nothing is restored to data that nobody has accepted.
      if (this.#deps.identity?.refusal()) return;
      await this.#check();
      await this.#restoreEnvironments();
      if (this.#isFailing) logger.info("Redis holds what this process needs of it");
      this.#isFailing = false;
    } catch (error) {
      if (error instanceof StoreMisconfigured && !this.#isChecked) return this.#deps.onUnusable(error);
      if (!this.#isFailing)
        logger.error(
          errorFields(error),
          "Redis is back, but whether it holds what this process needs could not be checked; trying again",
        );
      this.#isFailing = true;
      this.#later();
    } finally {
      this.#isRunning = false;
    }
  }

  #later(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => void this.#run(), RETRY_MS).unref();
  }

  async #check(): Promise<void> {
    const { client, identity, cipher, tokenKeys } = this.#deps;
    await checkFormat(client, identity, this.#isChecked);
    const missing = await checkTokenKeys(client, cipher.ring);
    // Looking for groups takes time, and a process that serves has looked.
    if (!this.#isChecked) await tokenKeys.requireUnneeded(missing);
    this.#isChecked = true;
  }

  /** Writes again what Redis has lost. Nothing that was deleted comes back, and nothing that was created anew is replaced. */
  async #restoreEnvironments(): Promise<void> {
    if (this.#deps.identity?.refusal()) return;
    for (const [path, known] of this.#inUse) {
      const stored = await this.#deps.environments.ensureEnvironment(known, AT_START).catch(unlessDeleted);
      if (stored?.number === known.number) continue;
      this.forget(known);
      if (!stored) this.#tellDeleted(path);
      else
        this.#deps.logger.error(
          { environment: path },
          "Redis holds a different environment of this name than before: its API tokens act on that one now",
        );
    }
  }

  /** Logs that an environment is deleted, once until it is in use again. */
  #tellDeleted(environment: string): void {
    if (this.#toldDeleted.has(environment)) return;
    this.#toldDeleted.add(environment);
    this.#deps.logger.error(
      { environment },
      "an environment of API_TOKENS is deleted, so its tokens there have ended; take them out, or make it anew with CreateEnvironment",
    );
  }

  /** Waits for a check at the start. If Redis, or the shard that is asked, has gone away by then, it is made later. */
  async #unlessAway<T>(work: Promise<T>, what: string): Promise<T | undefined> {
    const { logger } = this.#deps;
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      logger.warn(errorFields(error), `Redis does not answer for ${what}: checked when it does`);
      this.#isFailing = true;
      this.#later();
      return undefined;
    }
  }
}

/** @throws the error, unless it says that an environment is deleted */
function unlessDeleted(error: unknown): undefined {
  if (!(error instanceof EnvironmentNotFound)) throw error;
}

/** The number of the layout that this release reads and writes; a release that changes the layout takes the next one. */
export const LAYOUT = "3";

/** The layout of releases that stored no number. */
const FIRST_LAYOUT = "1";

/**
 * Checks whether what Redis holds has the layout of this release, and gives it an identity if it has none.
 *
 * @param wasChecked whether it was checked before
 * @throws StoreMisconfigured when it has another; StoreUnavailable; TooFewReplicas
 */
async function checkFormat(
  client: StoreClient,
  identity: StoreIdentity | undefined,
  wasChecked: boolean,
): Promise<void> {
  // The embedded store begins empty.
  if (!identity) return;
  let found = await client.run("format", "get", [FORMAT_KEY]);
  // Looks for data before the number once more: had a worker of this release written the data, the number would be there by then.
  if (found === null && !wasChecked && (await holdsData(client)))
    found = (await client.run("format", "get", [FORMAT_KEY])) ?? FIRST_LAYOUT;
  requireLayout(found ?? LAYOUT);
  // Another worker may start at the same time, even one of another release.
  requireLayout(await identity.adopt());
}

/** @param format what `ug:format` holds @throws StoreMisconfigured when it is another layout than that of this release */
function requireLayout(format: string): void {
  const [found = ""] = format.split(" ");
  if (found === LAYOUT) return;
  const writer = Number(found) > Number(LAYOUT) ? "a later" : "an earlier";
  throw new StoreMisconfigured(
    `this Redis holds data of ${writer} release, in layout ${found}; this release has layout ${LAYOUT} and would not find it. ` +
      "Start the release that wrote it, export its groups (ExportUserGroups), and import them (ImportUserGroups) with this release into an empty Redis or another database; or check REDIS_URL",
  );
}

/**
 * Whether Redis has a key of this service that does not expire. It reads the names of all keys, which takes about a second for
 * each million keys of other applications. This happens only in a Redis without a layout number.
 */
export async function holdsData(client: Pick<StoreClient, "each">): Promise<boolean> {
  /** Where each node goes on, by its name; `0` at its end. */
  let cursors = new Map<string, string>();
  do {
    const pages = await client.each("format", async (redis, name) => {
      const cursor = cursors.get(name);
      if (cursor === "0") return { name, cursor, keys: [] };
      const [next, keys] = await redis.scan(cursor ?? 0, "MATCH", "ug:*", "COUNT", 1000);
      return { name, cursor: next, keys };
    });
    if (pages.some(({ keys }) => keys.some((key) => !key.startsWith("ug:rate:")))) return true;
    cursors = new Map(pages.map(({ name, cursor }) => [name, cursor]));
  } while ([...cursors.values()].some((cursor) => cursor !== "0"));
  return false;
}
