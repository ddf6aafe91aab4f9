import "./runtime.ts";
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { serveNode } from "@user-group-service/transport";
import { ApiTokens } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import type { Setting } from "../config/settings.ts";
import type { Environment } from "../domain/environment.ts";
import { newApiToken } from "../domain/token.ts";
import { errorFields, type Logger, openLog } from "../observability/log.ts";
import { Metrics } from "../observability/metrics.ts";
import { UnknownCallers } from "../observability/unknown-callers.ts";
import { CONSOLE_FILES } from "../rest/pages/console.ts";
import { DOCS_FILES } from "../rest/pages/docs.ts";
import { loadAllRules } from "../rpc/interceptors.ts";
import { Readiness } from "../rpc/readiness.ts";
import { sharedOverloaded } from "../rpc/refusal-errors.ts";
import { StoreClient } from "../store/connection/client.ts";
import { readRedisUrl } from "../store/connection/url.ts";
import { type RingKey, TokenCipher } from "../store/encryption.ts";
import { redisEnvironments } from "../store/environments.ts";
import { type App, createApp } from "./app.ts";
import { addGauges } from "./gauges.ts";
import { type CloseFailure, Lifecycle } from "./lifecycle.ts";
import { generateDevelopmentTokens, openIssuedTokens, staticTokens } from "./open-api-tokens.ts";
import { isLoopback, openSessions } from "./open-sessions.ts";
import { openAudit, openRateLimiters, openStore, openStores, WAIT_MS } from "./open-store.ts";
import { collectorTlsOf, openTraces } from "./open-traces.ts";
import { mayRead, requireListenPermission } from "./permissions.ts";
import { RedisState } from "./redis-state.ts";
import { type Reload, requireSuccessor, watchFiles } from "./reload.ts";
import { announce, endUnusable, type ForDevelopment, type Listening } from "./start-messages.ts";
import { openForks, Supervisor } from "./supervisor.ts";
import { answer, ask, isReporter, notifySupervisor, worker } from "./worker.ts";

/** How long the supervisor may take to collect metrics, in milliseconds: a little more than it waits for its workers. */
const METRICS_TIMEOUT_MS = 6000;

/** How long a check of Redis for `/readyz` and metrics may take, in milliseconds: less than probes and scrapes wait. */
const PROBE_TIMEOUT_MS = 2000;

/** A listening service. */
interface RunningService extends Omit<Listening, "workers"> {
  /** Stops accepting connections, finishes the calls in flight and closes everything within the shutdown timeout. */
  close(): Promise<void>;
}

/**
 * Opens the service, listens, and announces it. A worker leaves the announcement to its supervisor. If Redis is away, the
 * service listens without it and is not ready: it is announced when Redis has come and holds nothing that it cannot use.
 *
 * @throws StoreMisconfigured, or the error of `listen`
 */
export async function run(config: Config, options: { write?: (line: string) => void } = {}): Promise<RunningService> {
  const { app, log, lifecycle, metrics, forDevelopment, reload, listensAt, endStreams, close, start } = await open(
    config,
    options,
  );
  const { logger } = log;
  const listen = { ...config, ...worker?.ports };
  try {
    await requireListenPermission(listen.host, listen.port);
    const started = start();
    const isWaiting = await Promise.race([started.then(() => false), pause(WAIT_MS, true, { ref: false })]);
    // Opened first, so it closes last, and reports the shutdown while the service drains.
    const metricsUrl = await openMetricsPort(listen, { app, lifecycle });
    const onConnectionError = (error: Error) => logger.error(errorFields(error), "a connection cannot be accepted");
    const port = await serveNode(app.service, { ...listen, onConnectionError });
    listensAt(port.url);
    lifecycle.onClose("connections", () => port.destroy());
    lifecycle.onClose("requests under way", () => port.drain(quietMsOf(config)));
    lifecycle.onClose("streams", endStreams);
    const use: Reload = async (next, changed) => {
      if (next.tls && changed.has("TLS_CERT_FILE")) port.setCertificates(next.tls);
      await reload(next, changed);
    };
    const files = watchFiles(config, { use, logger, metrics });
    lifecycle.onClose("files of settings", () => files.close());
    const listening = { url: port.url, metricsUrl, ...forDevelopment };
    if (worker) {
      logger.debug({ url: port.url }, "worker listening");
      answer(process, "own metrics", () => metrics.own());
      // The channel to the supervisor does not keep a worker alive.
      process.channel?.unref();
      if (isWaiting) notifySupervisor({ kind: "waiting" });
    }
    await started;
    if (worker) notifySupervisor({ kind: "listening", url: port.url, metricsUrl });
    else announce(log, listening);
    void loadAllRules();
    sharedOverloaded();
    return { ...listening, close };
  } catch (error) {
    await lifecycle.close(config.shutdownTimeoutMs, { onFailure: closeFailure(logger) });
    throw error;
  }
}

/** How long a client over HTTP/1.1 has to be silent until a shutdown closes its connection, in milliseconds. */
function quietMsOf({ shutdownTimeoutMs }: Pick<Config, "shutdownTimeoutMs">): number {
  return Math.min(1000, shutdownTimeoutMs / 10);
}

/** Opens the port for health and metrics, if it is set. @returns its URL */
async function openMetricsPort(
  {
    host,
    metricsPort,
    reusePort,
    shutdownTimeoutMs,
  }: Pick<Config, "host" | "metricsPort" | "shutdownTimeoutMs"> & { readonly reusePort?: boolean },
  { app, lifecycle }: { app: App; lifecycle: Lifecycle },
): Promise<string | undefined> {
  if (metricsPort === undefined) return undefined;
  await requireListenPermission(host, metricsPort);
  const port = await serveNode(app.operations, { host, port: metricsPort, reusePort });
  lifecycle.onClose("connections of METRICS_PORT", () => port.destroy());
  lifecycle.onClose("requests of METRICS_PORT", () => port.drain(quietMsOf({ shutdownTimeoutMs })));
  return port.url;
}

/** Starts a supervisor and its workers. @throws WorkersFailed, NotAllowed, or the error of `listen` */
export async function supervise(config: Config): Promise<{ close(): Promise<void> }> {
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config) });
  const supervisor = new Supervisor(config, { forks: await openForks(config), log });
  await supervisor.start();
  return supervisor;
}

/** Opens everything but the port. Nobody is served before `start` has resolved. @throws StoreMisconfigured */
export async function open(config: Config, options: { write?: (line: string) => void } = {}) {
  const lifecycle = new Lifecycle();
  const isForDevelopment = config.redisUrl === undefined && config.apiTokens.length === 0;
  const generatedTokens = isForDevelopment ? generateDevelopmentTokens() : [];
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config), ...options });
  const metrics = new Metrics(worker && (() => ask(process, "all metrics", METRICS_TIMEOUT_MS)));
  if (config.apiTokens.length + generatedTokens.length + config.adminTokens.length === 0)
    log.logger.warn("neither API_TOKENS nor ADMIN_TOKEN is set: only API tokens that were issued before let anyone in");
  try {
    const traces = await openTraces(config, { logger: log.logger, metrics, lifecycle });
    let onReconnected = () => {};
    const { client, identity, opened } = await openStore(config, {
      logger: log.logger,
      metrics,
      onReady: () => onReconnected(),
    });
    lifecycle.onClose("store", () => client.close());
    let ring: readonly RingKey[] =
      config.tokenKeys.length > 0 ? config.tokenKeys : [{ id: "embedded", secret: randomBytes(32) }];
    const audit = openAudit(config, { logger: log.logger, metrics });
    const cipher = new TokenCipher(ring);
    const environments = redisEnvironments({
      client,
      audit,
      listener: { environmentDeleted: (environment) => listener.environmentDeleted(environment) },
    });
    const common = { client, cipher, audit, environments, lifecycle, logger: log.logger };
    const { sessions, signingKeys, listensAt, createListener } = openSessions(config, common);
    const onDeleted = (environment: Environment) => state.deleted(environment);
    const { issued, listener } = openIssuedTokens(config, common, { createListener, onDeleted });
    const stores = openStores(traces ? client.tracedBy(() => traces.current?.roundTrip) : client, {
      cipher,
      audit,
      listener,
    });
    const checked = { config, client, identity, ...stores, logger: log.logger, onUnusable: endUnusable };
    const state = new RedisState({ ...checked, ring: () => ring });
    lifecycle.onClose("checks of Redis", () => state.close());
    let isStarted = false;
    let current = config;
    const tokensOf = (settings: Pick<Config, "adminTokens" | "apiTokens">) =>
      staticTokens(settings, state, ring.at(-1)?.secret as Uint8Array);
    const hasConsole = (config.console ?? config.redisUrl === undefined) && (await mayServe(CONSOLE, log.logger));
    if (isReporter()) warnOfSettings(config, { logger: log.logger, hasConsole });
    const adminToken = hasConsole && isForDevelopment && config.adminTokens.length === 0 ? newApiToken() : undefined;
    const authenticator = new ApiTokens(issued);
    const probe = new StoreClient(client.nodes, {
      data: identity,
      timeoutMs: Math.min(config.redisTimeoutMs, PROBE_TIMEOUT_MS),
      observe: metrics.observeStore.bind(metrics),
    });
    const readiness = new Readiness({ probe, logger: log.logger, isOpen: () => isStarted });
    addGauges(metrics, { settings: () => current, client: probe, identity, ring: () => ring, issued, readiness });
    /** Uses settings whose files have changed, but for the certificates of a port. */
    const reload: Reload = async (next, changed) => {
      log.redact(secretsOf(next));
      if (changed.has("TOKEN_KEYS_FILE")) {
        await requireSuccessor(ring, next.tokenKeys, config.redisUrl === undefined ? undefined : { client, ...stores });
        ring = next.tokenKeys;
        cipher.use(ring);
        await state.noteKeyUse();
      }
      await client.changeSecrets({
        ...(changed.has("REDIS_PASSWORD_FILE") && { password: next.redisPassword }),
        ...(changed.has("REDIS_SENTINEL_PASSWORD_FILE") && { sentinelPassword: next.redisSentinelPassword }),
        ...(changed.has("REDIS_CA_FILE") && { ca: next.redisCa }),
      });
      if ([...changed].some((setting) => setting.startsWith("OTEL_"))) traces?.useTls(collectorTlsOf(next));
      if (changed.has("API_TOKENS_FILE") || changed.has("ADMIN_TOKEN_FILE")) {
        if (isStarted) authenticator.use(await tokensOf(next));
        state.useOnly(next.apiTokens.map(({ environment }) => environment));
      }
      current = next;
    };
    state.onGone = ({ number }) => authenticator.forget(number);
    /** Waits for Redis, checks what it holds, and serves. */
    const start = async () => {
      await opened;
      if (config.redisUrl !== undefined) await state.check();
      // The files of settings may change in the meantime.
      for (let used: Config | undefined; used !== current; ) {
        used = current;
        const adminTokens = adminToken === undefined ? used.adminTokens : [adminToken];
        authenticator.use(await tokensOf({ adminTokens, apiTokens: [...used.apiTokens, ...generatedTokens] }));
      }
      state.watch();
      if (config.redisUrl !== undefined) onReconnected = () => state.restore();
      isStarted = true;
    };
    const unknownCallers = new UnknownCallers(log.logger);
    lifecycle.onClose("failures of unknown callers", () => unknownCallers.report());
    const shutdown = new AbortController();
    // Every open stream adds a listener.
    setMaxListeners(0, shutdown.signal);
    const app = createApp({
      ...config,
      docs: config.docs && (await mayServe(DOCS, log.logger)),
      console: hasConsole,
      rateLimiters: openRateLimiters(config, { client: config.redisUrl === undefined ? undefined : client, metrics }),
      ...stores,
      sessions,
      signingKeys,
      traces,
      readiness,
      confirmMissing: () => client.confirmMissing(),
      acceptData: () => state.accept(),
      authenticator,
      logger: log.logger,
      metrics,
      unknownCallers,
      shutdownSignal: shutdown.signal,
      isClosing: () => lifecycle.isClosing,
    });
    /** Closes everything after the shutdown delay, within the shutdown timeout. */
    const close = async () => {
      log.logger.info("shutting down");
      const { shutdownTimeoutMs, shutdownDelayMs } = config;
      // A process that must not serve any longer has its exit code already: it ends at once.
      const delayMs = process.exitCode === undefined ? shutdownDelayMs : 0;
      const failed = await lifecycle.close(shutdownTimeoutMs, { onFailure: closeFailure(log.logger), delayMs });
      if (failed.length > 0) log.logger.warn({ failed }, "not closed in time");
      else log.logger.info("closed");
    };
    /** Ends the streams, which do not end by themselves. */
    const endStreams = () => shutdown.abort();
    const forDevelopment: ForDevelopment = { generatedTokens, adminToken };
    return { app, log, lifecycle, metrics, forDevelopment, reload, listensAt, endStreams, close, start };
  } catch (error) {
    await lifecycle.close(config.shutdownTimeoutMs, { onFailure: closeFailure(log.logger) });
    throw error;
  }
}

/** Shorter ones would be found in ordinary words, and blacken them. */
const MIN_SECRET_LENGTH = 8;

/** The credentials in the settings, which the log must not contain. */
function secretsOf(config: Config): string[] {
  const { apiTokens, adminTokens, tokenKeys, redisUrl = "", redisPassword, redisSentinelPassword } = config;
  const redis = readRedisUrl(redisUrl, { password: redisPassword });
  const secrets = [
    ...apiTokens.map(({ token }) => token),
    ...tokenKeys.map(({ secret }) => Buffer.from(secret).toString("base64")),
    ...adminTokens,
    redisSentinelPassword,
    ...Object.values(config.otlpHeaders),
    "target" in redis ? redis.target.secrets.password : undefined,
  ];
  return secrets.filter((secret) => secret !== undefined && secret.length >= MIN_SECRET_LENGTH) as string[];
}

function warnOfSettings(
  { misspelled, host, tls, metricsPort }: Config,
  { logger, hasConsole }: { readonly logger: Logger; readonly hasConsole: boolean },
): void {
  for (const { name, setting } of misspelled) {
    logger.warn({ name, setting }, "a variable of the environment looks like a setting and is none; is it misspelled?");
  }
  if (isLoopback(host)) return;
  if (tls && hasConsole && metricsPort !== undefined)
    logger.warn(
      { host },
      "HOST can be reached from other machines, and METRICS_PORT, which has neither TLS nor client certificates, takes tokens for the console: let nobody reach this port but operators by a way that nobody reads, or set CONSOLE=off",
    );
  if (tls) return;
  logger.warn(
    { host },
    "HOST can be reached from other machines, and without TLS every token can be read on the way: set TLS_CERT_FILE and TLS_KEY_FILE, or let only a proxy with TLS reach this port",
  );
}

/** A page, and what is served with it. */
interface Page {
  readonly files: readonly string[];
  readonly paths: string;
  readonly setting: Setting;
}

const DOCS: Page = { files: DOCS_FILES, paths: "/openapi.json and /docs/", setting: "DOCS" };
const CONSOLE: Page = { files: CONSOLE_FILES, paths: "/console/", setting: "CONSOLE" };

/** Whether the files of a page can be read. From sources, Deno may forbid it, or no build may have made them. */
async function mayServe({ files, paths, setting }: Page, logger: Logger): Promise<boolean> {
  const isLet = await mayRead(files);
  if (isLet && files.every((file) => existsSync(file))) return true;
  const why = isLet
    ? `the files of ${paths} are not there, which are not served: make them by npm run build`
    : `Deno does not let the files of ${paths} be read, which are not served: name them in --allow-read too`;
  if (isReporter()) logger.warn({ files }, `${why}, or set ${setting}=off`);
  return false;
}

/** Logs why a resource could not be closed. */
function closeFailure(logger: Logger): CloseFailure {
  return (name, error) => logger.warn({ name, ...errorFields(error) }, "closing failed");
}
