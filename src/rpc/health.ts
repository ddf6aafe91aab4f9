import { setTimeout } from "node:timers/promises";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { callError } from "./errors.ts";
import type { Readiness } from "./readiness.ts";

export interface HealthDeps {
  readonly readiness: Pick<Readiness, "is">;
  readonly isClosing: () => boolean;
}

const WATCH_INTERVAL_MS = 1000;

/** A health check for this name reports whether changes work. No RPC service has this name. */
const CHANGES = "changes";

/**
 * Implements grpc.health.v1.Health (https://github.com/grpc/grpc/blob/master/doc/health-checking.md). A service is
 * SERVING while reads work, even if changes fail. If the service were NOT_SERVING while changes fail, clients and
 * proxies would send no reads either. The name `changes` is SERVING while changes work. During a shutdown, all names
 * are NOT_SERVING.
 *
 * @param names the names of the services. The function adds `""`, the name of the whole server
 */
export function healthService({ readiness, isClosing }: HealthDeps, names: readonly string[]) {
  const services = ["", ...names, CHANGES];
  const statusOf = async (service: string) => {
    const isServing = !isClosing() && (await readiness.is(service === CHANGES ? "changes" : "reads"));
    return isServing ? Status.SERVING : Status.NOT_SERVING;
  };
  return {
    async check({ service }) {
      if (services.includes(service)) return { status: await statusOf(service) };
      throw callError(Code.NotFound, "this server does not have this service", { reason: "SERVICE_NOT_FOUND" });
    },

    async list() {
      const statusesOf = services.map(async (service) => [service, { status: await statusOf(service) }] as const);
      return { statuses: Object.fromEntries(await Promise.all(statusesOf)) };
    },

    async *watch({ service }, { signal }) {
      let last: Status | undefined;
      for (let isLast = false; !isLast; ) {
        // Read the signal before the status. If the signal aborts between these two reads, the loop runs once more and
        // sends the final status.
        isLast = signal.aborted;
        const status = services.includes(service) ? await statusOf(service) : Status.SERVICE_UNKNOWN;
        if (status !== last) yield { status };
        last = status;
        if (!isLast) await setTimeout(WATCH_INTERVAL_MS, undefined, { signal }).catch(() => {});
      }
    },
  } satisfies ServiceImpl<typeof Health>;
}
