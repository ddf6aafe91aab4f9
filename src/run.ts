import cluster from "node:cluster";
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { announce } from "./announce.ts";
import { type App, createApp } from "./app.ts";
import { StaticTokens } from "./auth/static-tokens.ts";
import type { ApiTokenSetting, Config } from "./config/config.ts";
import { newApiToken } from "./domain/token.ts";
import "./hardening.ts";
import { Lifecycle } from "./lifecycle.ts";
import { errorFields, type Log, type Logger, openLog } from "./observability/log.ts";
import { Metrics } from "./observability/metrics.ts";
import { requireListenPermission } from "./permissions.ts";
import { openEmbedded, openRedis, type StoreClient } from "./store/client.ts";
import { TokenCipher } from "./store/encryption.ts";
import { RedisEnvironments } from "./store/environments.ts";
import { TeamIds } from "./store/team-ids.ts";
import { RedisUserGroups } from "./store/user-groups.ts";
import { Supervisor, tellSupervisor } from "./supervisor.ts";
import { dispatch } from "./transport/dispatch.ts";
import { openPort } from "./transport/port.ts";

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
 * @throws StoreUnavailable, or what listening throws
 */
export async function run(config: Config, options: { write?: (line: string) => void } = {}): Promise<RunningService> {
  const { app, log, lifecycle, madeTokens, endStreams } = await open(config, options);
  const { logger } = log;
  const close = async () => {
    logger.info("shutting down");
    const failed = await lifecycle.close(config.shutdownTimeoutMs);
    if (failed.length > 0) logger.warn({ failed }, "not closed in time");
    else logger.info("closed");
  };
  try {
    await requireListenPermission(config.host, config.port);
    // Opened first and so closed last: while the service drains, it says so here.
    const metricsUrl = await openMetricsPort(config, app, lifecycle);
    const port = await openPort(
      config,
      dispatch({ ...app, fallbackHeaders: (headers) => app.cors.headersFor(headers) }),
    );
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
    await lifecycle.close(config.shutdownTimeoutMs);
    throw error;
  }
}

/** Opens the port of health and metrics, where it is set. @returns its URL */
async function openMetricsPort(config: Config, app: App, lifecycle: Lifecycle): Promise<string | undefined> {
  if (config.metricsPort === undefined) return undefined;
  await requireListenPermission(config.host, config.metricsPort);
  const { findOperation: find, fallback, onHttpError } = app;
  const port = await openPort(
    { ...config, port: config.metricsPort, tls: undefined },
    dispatch({ find, fallback, onHttpError, fallbackHeaders: () => undefined }),
  );
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

/** Opens everything but a port. @throws StoreUnavailable */
export async function open(config: Config, options: { write?: (line: string) => void } = {}): Promise<OpenService> {
  const lifecycle = new Lifecycle();
  const madeTokens = config.redisUrl === undefined && config.apiTokens.length === 0 ? developmentTokens() : [];
  const apiTokens = [...config.apiTokens, ...madeTokens];
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config), ...options });
  const metrics = new Metrics();
  if (apiTokens.length === 0)
    log.logger.warn("API_TOKENS is not set: nobody can call UserGroupService or ViewerService");
  try {
    const client = await openStore(config, log.logger, metrics);
    lifecycle.onClose("store", () => client.close());
    const ring = config.tokenKeys.length > 0 ? config.tokenKeys : [{ id: "embedded", secret: randomBytes(32) }];
    const teamIds = new TeamIds(client);
    const store = new RedisUserGroups({ client, cipher: new TokenCipher(ring), teamIds });
    lifecycle.onClose("settlements", () => store.drain());
    await teamIds.prepare();
    const authenticator = new StaticTokens(await principals(apiTokens, new RedisEnvironments(client)));
    const shutdown = new AbortController();
    // Every stream that is open listens to it.
    setMaxListeners(0, shutdown.signal);
    const app = createApp({
      ...config,
      store,
      probe: client,
      authenticator,
      logger: log.logger,
      metrics,
      shutdownSignal: shutdown.signal,
      isClosing: () => lifecycle.isClosing,
    });
    return { app, log, lifecycle, madeTokens, endStreams: () => shutdown.abort() };
  } catch (error) {
    await lifecycle.close(config.shutdownTimeoutMs);
    throw error;
  }
}

/** The credentials of the settings, which the log must not hold. */
function secretsOf({ apiTokens, adminToken, redisUrl }: Config): string[] {
  const password = redisUrl === undefined ? "" : new URL(redisUrl).password;
  // As the URL has it, and as it is sent.
  const passwords = /%(?![0-9a-f]{2})/i.test(password) ? [password] : [password, decodeURIComponent(password)];
  return [...apiTokens.map(({ token }) => token), adminToken ?? "", ...passwords].filter((secret) => secret !== "");
}

async function openStore(config: Config, logger: Logger, metrics: Metrics): Promise<StoreClient> {
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
    observe,
    onError: (error) => {
      // While Redis is away every attempt to reconnect fails alike; one line says it.
      if (error.message !== lastText) logger.error(errorFields(error), "Redis connection failed");
      lastText = error.message;
    },
    onReady: () => {
      lastText = "";
      logger.info("Redis connection is ready");
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
