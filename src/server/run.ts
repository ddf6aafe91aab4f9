import "./runtime.ts";
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { type ListenOptions, type ServeOptions, serveNode } from "@user-group-service/transport";
import { ApiTokens } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import { History, type HistoryAnswer, type HistoryQuery, type Sample } from "../observability/history.ts";
import { errorFields, type Log, openLog } from "../observability/log.ts";
import { Metrics } from "../observability/metrics.ts";
import { oncePer } from "../observability/once-per.ts";
import { loadAllRules } from "../rpc/interceptors.ts";
import { Readiness } from "../rpc/readiness.ts";
import { type RingKey, TokenCipher } from "../store/encryption.ts";
import { LastResolves } from "../store/groups/last-resolves.ts";
import { createApp } from "./app.ts";
import { addGauges } from "./gauges.ts";
import { Lifecycle } from "./lifecycle.ts";
import { generateTokens, openIssuedTokens } from "./open-api-tokens.ts";
import { openAudit, openRateLimiters, openStore, WAIT_MS } from "./open-store.ts";
import { openTraces } from "./open-traces.ts";
import { openWebhooks } from "./open-webhooks.ts";
import { CONSOLE, canServe, DOCS } from "./pages.ts";
import { requireListenPermission } from "./permissions.ts";
import { RedisState } from "./redis-state.ts";
import { watchFiles } from "./reload.ts";
import { secretsOf } from "./secrets.ts";
import { Service } from "./service.ts";
import { announce, endUnusable, isLoopback, warnOfSettings } from "./start-messages.ts";
import { openForks, Supervisor } from "./supervisor.ts";
import { answerData, isReporter, notifySupervisor, requestData, worker } from "./worker.ts";

/**
 * The time that a worker waits for the metrics of all workers or for the history, in milliseconds. It is longer than
 * the time that the supervisor waits for the metrics of each worker.
 */
const METRICS_TIMEOUT_MS = 6000;

/** The timeout of a Redis call for `/readyz` and metrics, in milliseconds. Probes and monitors usually wait longer. */
const PROBE_TIMEOUT_MS = 2000;

/**
 * The minimum time between two log lines about failed calls of unauthenticated clients, in milliseconds. Applies to
 * each error code separately.
 */
const UNKNOWN_INTERVAL_MS = 60_000;

/**
 * Opens the service, and listens. If Redis does not answer within `WAIT_MS`, the service listens anyway, but is not
 * ready. The service prints or logs its URL when it can use the data in Redis. A worker sends the URL to the
 * supervisor instead. `close` of the result stops accepting connections, finishes the calls in flight, and closes all
 * resources within the shutdown timeout.
 *
 * @throws StoreMisconfigured, or the error of `listen`
 */
export async function run(config: Config): Promise<{ close(): Promise<void> }> {
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config) });
  const { logger } = log;
  const lifecycle = new Lifecycle((name, error) =>
    logger.warn({ name, ...errorFields(error) }, "a resource could not be closed"),
  );
  const listen = { ...config, ...worker?.ports };
  try {
    const { app, metrics, development, service, sessions, endStreams, startDeliveries } = await open(config, {
      log,
      lifecycle,
    });
    // The idle time after which a shutdown closes an HTTP/1.1 connection, in milliseconds.
    const quietMs = Math.min(1000, config.shutdownTimeoutMs / 10);
    const serve = async (options: ServeOptions, at: ListenOptions, suffix = "") => {
      const port = await serveNode(options, at);
      lifecycle.onClose(`connections${suffix}`, () => port.destroy());
      lifecycle.onClose(`calls in flight${suffix}`, () => port.drain(quietMs));
      return port;
    };
    const { host, metricsPort, reusePort } = listen;
    for (const port of [listen.port, metricsPort]) if (port !== undefined) await requireListenPermission(host, port);
    const started = service.start();
    const isWaiting = await Promise.race([started.then(() => false), pause(WAIT_MS, true, { ref: false })]);
    // The metrics port opens first and closes last, so /readyz reports the shutdown while the service drains.
    const operations =
      metricsPort === undefined
        ? undefined
        : await serve(app.operations, { host, port: metricsPort, reusePort }, " of METRICS_PORT");
    const metricsUrl = operations?.url;
    const onConnectionError = (error: Error) =>
      logger.error(errorFields(error), "the service cannot accept a connection");
    const port = await serve(app.service, { ...listen, onConnectionError });
    // If HOST is a loopback address, all clients are on this machine and use this URL, so this URL is the public URL.
    if (isLoopback(config.host)) sessions.publicUrl ??= port.url;
    lifecycle.onClose("streams", endStreams);
    const files = watchFiles(config, {
      async use(next, changed) {
        if (next.tls && changed.has("TLS_CERT_FILE")) port.setCertificates(next.tls);
        await service.reload(next, changed);
      },
      logger,
      metrics,
    });
    lifecycle.onClose("files of settings", () => files.close());
    if (worker) {
      logger.debug({ url: port.url }, "worker listening");
      answerData(process, "own metrics", () => metrics.own());
      // The channel to the supervisor must not keep a worker alive.
      process.channel?.unref();
      if (isWaiting) notifySupervisor({ kind: "waiting" });
    }
    await started;
    startDeliveries();
    if (worker) notifySupervisor({ kind: "listening", url: port.url, metricsUrl });
    else announce(log, { url: port.url, metricsUrl, development });
    void loadAllRules();
    return {
      async close() {
        logger.info("shutting down");
        // If the exit code is set, the service has failed and must stop immediately. In this case, skip the delay.
        const delayMs = process.exitCode === undefined ? config.shutdownDelayMs : 0;
        const failed = await lifecycle.close(config.shutdownTimeoutMs, { delayMs });
        if (failed.length > 0) logger.warn({ failed }, "could not be closed");
        else logger.info("closed");
      },
    };
  } catch (error) {
    await lifecycle.close(config.shutdownTimeoutMs);
    throw error;
  }
}

export async function supervise(config: Config): Promise<{ close(): Promise<void> }> {
  const log = await openLog({ level: config.logLevel, secrets: secretsOf(config) });
  const supervisor = new Supervisor(config, { forks: await openForks(config), log });
  await supervisor.start();
  return supervisor;
}

/**
 * Opens all resources except the ports. The service serves no request until `service.start` has resolved.
 *
 * @throws StoreMisconfigured
 */
export async function open(config: Config, { log, lifecycle }: { readonly log: Log; readonly lifecycle: Lifecycle }) {
  const { logger } = log;
  const metrics = new Metrics(worker && (() => requestData(process, "all metrics", METRICS_TIMEOUT_MS)));
  const hasConsole = (config.console ?? !config.redis) && (await canServe(CONSOLE, logger));
  const hasDocs = config.docs && (await canServe(DOCS, logger));
  const development = generateTokens(config, hasConsole);
  if (isReporter()) warnOfSettings(config, { logger, hasConsole, development });
  const traces = await openTraces(config, { logger, metrics, lifecycle });
  // Await nothing between the result of `openStore` and `new RedisState`. Otherwise `onReady` could use `state` before
  // its definition.
  const onReady = () => state.restore();
  const { client, identity, opened } = await openStore(config, { logger, metrics, onReady });
  lifecycle.onClose("store", () => client.close());
  const audit = openAudit(config, { logger, metrics });
  // If `TOKEN_KEYS` is not set, a random key is enough, because the embedded store loses its data when the process
  // exits.
  const embedded: RingKey = { id: "embedded", secret: randomBytes(32) };
  const cipher = new TokenCipher(config.tokenKeys.length > 0 ? config.tokenKeys : [embedded]);
  const { stores, sessions, signingKeys, issued } = openIssuedTokens(config, {
    client,
    cipher,
    audit,
    lifecycle,
    logger,
    storeClient: traces ? client.with({ traceOf: () => traces.current?.roundTrip }) : client,
    onDeleted: (environment) => state.deleted(environment),
  });
  const lastResolves = new LastResolves(client);
  lifecycle.onClose("last resolves of groups", () => lastResolves.write());
  const authenticator = new ApiTokens(issued);
  const state = new RedisState({
    ...stores,
    config,
    client,
    identity,
    cipher,
    logger,
    authenticator,
    onUnusable: endUnusable,
  });
  lifecycle.onClose("checks of Redis", () => state.close());
  const parts = { log, client, opened, state, cipher, tokenKeys: stores.tokenKeys, authenticator, traces };
  const service = new Service(config, { ...parts, development });
  const probe = client.with({ timeoutMs: Math.min(config.redisTimeoutMs, PROBE_TIMEOUT_MS) });
  const readiness = new Readiness({ probe, logger, isOpen: () => service.isStarted });
  addGauges(metrics, { settings: () => service.settings, client: probe, identity, cipher, issued, readiness });
  const webhooks = openWebhooks(config, { client, cipher, audit, stores, logger, metrics, lifecycle });
  const shutdown = new AbortController();
  // Every open stream adds a listener to this signal, so turn off the warning about many listeners.
  setMaxListeners(0, shutdown.signal);
  const app = createApp({
    ...config,
    docs: hasDocs,
    console: hasConsole,
    rateLimiters: openRateLimiters(config, { client: config.redis && client, metrics }),
    ...stores,
    sessions,
    lastResolves,
    signingKeys,
    traces,
    readiness,
    confirmMissing: () => client.confirmMissing(),
    sendTest: webhooks.sendTest,
    acceptData: () => state.accept(),
    ...openHistory(),
    authenticator,
    logger,
    metrics,
    mayLogUnknown: oncePer(UNKNOWN_INTERVAL_MS),
    shutdownSignal: shutdown.signal,
    isClosing: () => lifecycle.isClosing,
  });
  lifecycle.onClose("samples", app.stopSampler);
  const endStreams = () => shutdown.abort();
  return { app, metrics, development, service, sessions, endStreams, startDeliveries: webhooks.start };
}

/** Opens the history of metrics. A worker sends its samples to the supervisor, which stores them for all workers. */
function openHistory() {
  if (worker) {
    const readHistory = async (query: HistoryQuery) => {
      const text = await requestData(process, "history", METRICS_TIMEOUT_MS, JSON.stringify(query));
      return text === undefined ? undefined : (JSON.parse(text) as HistoryAnswer);
    };
    return { onSample: (sample: Sample) => notifySupervisor({ kind: "sample", sample }), readHistory };
  }
  const history = new History();
  return {
    onSample: (sample: Sample) => history.add(sample),
    readHistory: async (query: HistoryQuery): Promise<HistoryAnswer | undefined> => history.read(query, Date.now()),
  };
}
