import cluster from "node:cluster";
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { announce } from "./announce.ts";
import { type App, createApp } from "./app.ts";
import { StaticTokens } from "./auth/static-tokens.ts";
import type { ApiTokenSetting, Config } from "./config/config.ts";
import { type Environment, environmentPath } from "./domain/environment.ts";
import type { StoreProbe } from "./domain/store.ts";
import { newApiToken } from "./domain/token.ts";
import "./hardening.ts";
import { type CloseFailure, Lifecycle } from "./lifecycle.ts";
import { errorFields, type Log, type Logger, openLog } from "./observability/log.ts";
import { Metrics } from "./observability/metrics.ts";
import { requireListenPermission } from "./permissions.ts";
import type { StoreClient } from "./store/client.ts";
import { durabilityWarnings } from "./store/durability.ts";
import { openEmbedded } from "./store/embedded.ts";
import { TokenCipher } from "./store/encryption.ts";
import { RedisEnvironments } from "./store/environments.ts";
import { openRedis } from "./store/open.ts";
import { checkTokenKeys } from "./store/token-keys.ts";
import { RedisUserGroups } from "./store/user-groups.ts";
import { Supervisor, tellSupervisor } from "./supervisor.ts";
import { serveNode } from "./transport/index.ts";

/** The service, opened but for its port. */
export interface OpenService {
  readonly app: App;
  readonly log: Log;
  readonly lifecycle: Lifecycle;
  /** The API tokens that were made because none were set. */
  readonly madeTokens: readonly ApiTokenSetting[];
  /** Ends the streams, which would not end by themselves. */
  readonly endStreams: () => void;
}

/** A service that listens. */
export interface RunningService {
  /** Where it listens, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Where health and metrics are, when they have a port of their own. */
  readonly metricsUrl: string | undefined;
  /** The API tokens that were made because none were set. */
  readonly madeTokens: readonly ApiTokenSetting[];
  /** Stops accepting, finishes what is under way and closes everything within the shutdown timeout. */
  close(): Promise<void>;
}

/**
 * Opens the service and listens. One of several workers leaves it to its supervisor to say so.
 *
 * @throws StoreUnavailable, StoreMisconfigured, or what listening throws
 */
export async function run(config: Config, options: { write?: (line: string) => void } = {}): Promise<RunningService> {
  const { app, log, lifecycle, madeTokens, endStreams } = await open(config, options);
  const { logger } = log;
  const close = async () => {
    logger.info("shutting down");
    const failed = await lifecycle.close(config.shutdownTimeoutMs, closeFailure(logger));
    if (failed.length > 0) logger.warn({ failed }, "not closed in time");
    else logger.info("closed");
  };
  try {
    await requireListenPermission(config.host, config.port);
    // Opened first and so closed last: while the service drains, it says so here.
    const metricsUrl = await openMetricsPort(config, { app, lifecycle });
    const onConnectionError = (error: Error) => logger.error(errorFields(error), "a connection cannot be accepted");
    const port = await serveNode(app.service, { ...config, onConnectionError });
    lifecycle.onClose("connections", () => port.destroy());
    lifecycle.onClose("requests under way", () => port.drain());
    lifecycle.onClose("streams", endStreams);
    const listening = { url: port.url, metricsUrl, madeTokens };
    if (cluster.isWorker) {
      logger.debug({ url: port.url, pid: process.pid }, "worker listening");
      tellSupervisor({ kind: "listening", url: port.url, metricsUrl });
    } else announce(log, listening);
    return { ...listening, close };
  } catch (error) {
    await lifecycle.close(config.shutdownTimeoutMs, closeFailure(logger));
    throw error;
  }
}

/** Opens the port of health and metrics, where it is set. @returns its URL */
async function openMetricsPort(
  config: Config,
  { app, lifecycle }: { app: App; lifecycle: Lifecycle },
): Promise<string | undefined> {
  if (config.metricsPort === undefined) return undefined;
  await requireListenPermission(config.host, config.metricsPort);
  const port = await serveNode(app.operations, { host: config.host, port: config.metricsPort, tls: undefined });
  lifecycle.onClose("connections of METRICS_PORT", () => port.destroy());
  lifecycle.onClose("requests of METRICS_PORT", () => port.drain());
  return port.url;
}

/** Starts a supervisor and as many workers as are set. @throws WorkersFailed */
export async function supervise(config: Config): Promise<{ close(): Promise<void> }> {
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config) });
  const supervisor = new Supervisor(config, log);
  await supervisor.start();
  return supervisor;
}

/** Opens everything but a port. @throws StoreUnavailable, StoreMisconfigured */
export async function open(config: Config, options: { write?: (line: string) => void } = {}): Promise<OpenService> {
  const lifecycle = new Lifecycle();
  const madeTokens = config.redisUrl === undefined && config.apiTokens.length === 0 ? developmentTokens() : [];
  const apiTokens = [...config.apiTokens, ...madeTokens];
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config), ...options });
  const metrics = new Metrics();
  if (apiTokens.length === 0)
    log.logger.warn("API_TOKENS is not set: nobody can call UserGroupService or ViewerService");
  try {
    let onBack = () => {};
    const client = await openStore(config, { logger: log.logger, metrics, onReady: () => onBack() });
    lifecycle.onClose("store", () => client.close());
    const ring = config.tokenKeys.length > 0 ? config.tokenKeys : [{ id: "embedded", secret: randomBytes(32) }];
    const store = new RedisUserGroups({ client, cipher: new TokenCipher(ring) });
    if (config.redisUrl !== undefined) await checkRedis(config, client, log.logger);
    if (tellsForAll()) warnOfExposure(config, log.logger);
    const environments = new RedisEnvironments(client);
    const bearers = await principals(apiTokens, environments);
    const authenticator = new StaticTokens(bearers);
    const inUse = bearers.map(({ principal }) => principal.environment);
    if (config.redisUrl !== undefined) onBack = () => void remind(config, { client, environments, inUse }, log.logger);
    const shutdown = new AbortController();
    // Every stream that is open listens to it.
    setMaxListeners(0, shutdown.signal);
    const app = createApp({
      ...config,
      store,
      probe: watchedProbe(client, log.logger),
      authenticator,
      logger: log.logger,
      metrics,
      shutdownSignal: shutdown.signal,
      isClosing: () => lifecycle.isClosing,
    });
    return { app, log, lifecycle, madeTokens, endStreams: () => shutdown.abort() };
  } catch (error) {
    await lifecycle.close(config.shutdownTimeoutMs, closeFailure(log.logger));
    throw error;
  }
}

/** The credentials of the settings that callers send, which the log must not hold. */
function secretsOf({ apiTokens, adminToken }: Config): string[] {
  return [...apiTokens.map(({ token }) => token), adminToken ?? ""].filter((secret) => secret !== "");
}

/** Whether this process is the one that tells what concerns all workers. */
function tellsForAll(): boolean {
  return !cluster.isWorker || cluster.worker?.id === 1;
}

/** Holds Redis against the settings, and says what an operator should change. @throws StoreMisconfigured, StoreUnavailable */
async function checkRedis({ tokenKeys, minReplicasAck }: Config, client: StoreClient, logger: Logger): Promise<void> {
  const lacking = await checkTokenKeys(client, tokenKeys);
  if (!tellsForAll()) return;
  if (lacking.length > 0) {
    logger.warn(
      { keys: lacking },
      "TOKEN_KEYS lacks keys that tokens in this Redis may be encrypted under: groups with such a token cannot be read; add the keys behind the others",
    );
  }
  for (const warning of await durabilityWarnings(client, minReplicasAck)) logger.warn(warning);
}

/**
 * Tells a Redis that has come back what it may have forgotten: which keys encrypt, so that a wrong ring is still told
 * from the right one, and the environments with their numbers, so that no other ones are given these.
 */
async function remind(
  { tokenKeys }: Config,
  parts: { client: StoreClient; environments: RedisEnvironments; inUse: readonly Environment[] },
  logger: Logger,
): Promise<void> {
  const { client, environments, inUse } = parts;
  // Of several connections the last one to be there has it done.
  if (!client.isReady()) return;
  try {
    await checkTokenKeys(client, tokenKeys);
    for (const known of new Map(inUse.map((environment) => [environmentPath(environment), environment])).values()) {
      const stored = await environments.ensureEnvironment(known);
      if (stored.number === known.number && stored.partitions === known.partitions) continue;
      logger.error(
        { environment: environmentPath(known) },
        "Redis holds another environment of this name than the one this process works with; restart it",
      );
    }
  } catch (error) {
    logger.error(errorFields(error), "Redis has come back, but could not be told of its keys and environments");
  }
}

function warnOfExposure({ host, tls }: Config, logger: Logger): void {
  if (tls || /^(?:127\.|::1$|localhost$)/i.test(host)) return;
  logger.warn(
    { host },
    "HOST can be reached from other machines, and without TLS every token can be read on the way: set TLS_CERT_FILE and TLS_KEY_FILE, or let only a proxy with TLS reach this port",
  );
}

/** A probe that tells the log when its answer changes, and why. */
function watchedProbe(probe: StoreProbe, logger: Logger): StoreProbe {
  let isFailing = false;
  return {
    async ping() {
      try {
        await probe.ping();
      } catch (error) {
        if (!isFailing) logger.error(errorFields(error), "not ready: no change can be made");
        isFailing = true;
        throw error;
      }
      if (isFailing) logger.info("ready again");
      isFailing = false;
    },
  };
}

/** Tells the log why something could not be closed. */
function closeFailure(logger: Logger): CloseFailure {
  return (name, error) => logger.warn({ name, ...errorFields(error) }, "closing failed");
}

async function openStore(
  config: Config,
  { logger, metrics, onReady }: { logger: Logger; metrics: Metrics; onReady: () => void },
): Promise<StoreClient> {
  const observe: Metrics["observeStore"] = (roundTrip) => metrics.observeStore(roundTrip);
  if (config.redisUrl === undefined) {
    logger.warn(
      "REDIS_URL is not set: the embedded store keeps everything in memory and loses it when the process ends",
    );
    return openEmbedded({ timeoutMs: config.redisTimeoutMs, observe });
  }
  let lastText = "";
  return openRedis(config.redisUrl, {
    timeoutMs: config.redisTimeoutMs,
    minReplicas: config.minReplicasAck,
    ca: config.redisCa,
    sentinelPassword: config.redisSentinelPassword,
    observe,
    onError: (error) => {
      // While Redis is away every attempt to reconnect fails alike; one line says it.
      if (error.message !== lastText) logger.error(errorFields(error), "Redis connection failed");
      lastText = error.message;
    },
    onReady: () => {
      lastText = "";
      logger.info("Redis connection is ready");
      onReady();
    },
  });
}

/** API tokens for trying the service out; they last as long as the process. */
function developmentTokens(): ApiTokenSetting[] {
  return (["Customer", "Testing"] as const).map((tag) => ({
    environment: { name: "dev", tag },
    token: newApiToken(),
  }));
}

async function principals(tokens: readonly ApiTokenSetting[], environments: RedisEnvironments) {
  return Promise.all(
    tokens.map(async ({ environment, token }) => ({
      token,
      principal: { environment: await environments.ensureEnvironment(environment) },
    })),
  );
}
