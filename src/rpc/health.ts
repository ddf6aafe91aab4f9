import { setTimeout } from "node:timers/promises";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import type { StoreProbe } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import { callError } from "./errors.ts";

/** What the health of the service depends on. */
export interface HealthDeps {
  readonly probe: StoreProbe;
  /** Whether the service is shutting down. */
  readonly isClosing: () => boolean;
}

/** How often Watch checks the state, in milliseconds. */
const WATCH_INTERVAL_MS = 1000;

/**
 * grpc.health.v1.Health (https://github.com/grpc/grpc/blob/master/doc/health-checking.md). All services share the
 * health of the store, and stop serving when the process shuts down.
 *
 * @param names of the services; the whole server, `""`, is one as well
 */
export function healthService({ probe, isClosing }: HealthDeps, names: readonly string[]) {
  const services = ["", ...names];
  const currentStatus = async () => {
    if (isClosing()) return Status.NOT_SERVING;
    return probe.ping().then(
      () => Status.SERVING,
      () => Status.NOT_SERVING,
    );
  };
  return {
    async check({ service }) {
      if (services.includes(service)) return { status: await currentStatus() };
      throw callError(Code.NotFound, "this server has no such service", { reason: "SERVICE_NOT_FOUND" });
    },

    async list() {
      const status = await currentStatus();
      return { statuses: Object.fromEntries(services.map((service) => [service, { status }])) };
    },

    async *watch({ service }, { signal }) {
      let last: Status | undefined;
      for (let isLast = false; !isLast; ) {
        // Read before the status, so that the last status of a shutdown is still sent.
        isLast = signal.aborted;
        const status = services.includes(service) ? await currentStatus() : Status.SERVICE_UNKNOWN;
        if (status !== last) yield { status };
        last = status;
        // Returns early when the signal aborts.
        if (!isLast) await setTimeout(WATCH_INTERVAL_MS, undefined, { signal }).catch(() => {});
      }
    },
  } satisfies ServiceImpl<typeof Health>;
}

/** How long a result is reused, in milliseconds: short enough to report an outage at once. */
export const PROBE_KEPT_MS = 100;

/**
 * A probe that sends one ping to the store at a time, reuses its result for a moment, and logs when it changes. Health
 * checks need no API token, so strangers must not be able to load the store through them.
 *
 * @param options `keptMs`: how long a result is reused, in milliseconds
 */
export function sharedProbe(
  probe: StoreProbe,
  { logger, keptMs = PROBE_KEPT_MS }: { readonly logger: Pick<Logger, "info" | "error">; readonly keptMs?: number },
): StoreProbe {
  let answer: Promise<void> | undefined;
  /** The result is reused until this time of `performance.now()`. */
  let until = 0;
  let isFailing = false;
  const keep = (error?: unknown) => {
    until = performance.now() + keptMs;
    if (error !== undefined && !isFailing) logger.error(errorFields(error), "not ready: no change can be made");
    if (error === undefined && isFailing) logger.info("ready again");
    isFailing = error !== undefined;
  };
  return {
    ping() {
      if (answer && performance.now() < until) return answer;
      until = Number.POSITIVE_INFINITY;
      answer = probe.ping();
      answer.then(() => keep(), keep);
      return answer;
    },
  };
}
