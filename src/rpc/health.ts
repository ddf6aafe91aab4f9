import { setTimeout } from "node:timers/promises";
import { Code, type ConnectError, type HandlerContext } from "@connectrpc/connect";
import {
  type HealthCheckRequest,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import type { StoreProbe } from "../domain/store.ts";
import { callError } from "./errors.ts";

/** What the health of the service depends on. */
export interface HealthParts {
  readonly probe: StoreProbe;
  /** Whether the service is shutting down. */
  readonly isClosing: () => boolean;
}

/** How often Watch checks the state, in milliseconds. */
const WATCH_INTERVAL_MS = 1000;

/**
 * grpc.health.v1.Health (https://github.com/grpc/grpc/blob/master/doc/health-checking.md). All services share the
 * health of the store, and stop serving when the process shuts down.
 */
export class HealthService {
  readonly #parts: HealthParts;
  readonly #services: readonly string[];

  /** @param services the service names; `""` stands for the whole server */
  constructor(parts: HealthParts, services: readonly string[]) {
    this.#parts = parts;
    this.#services = ["", ...services];
  }

  async check({ service }: HealthCheckRequest) {
    if (!this.#services.includes(service)) throw serviceNotFound();
    return { status: await this.#status() };
  }

  async list() {
    const status = await this.#status();
    return { statuses: Object.fromEntries(this.#services.map((service) => [service, { status }])) };
  }

  async *watch({ service }: HealthCheckRequest, { signal }: HandlerContext) {
    let last: Status | undefined;
    for (let isLast = false; !isLast; ) {
      // Read before the status, so that the last status of a shutdown is still sent.
      isLast = signal.aborted;
      const status = this.#services.includes(service) ? await this.#status() : Status.SERVICE_UNKNOWN;
      if (status !== last) yield { status };
      last = status;
      // Returns early when the signal aborts.
      if (!isLast) await setTimeout(WATCH_INTERVAL_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #status(): Promise<Status> {
    const { probe, isClosing } = this.#parts;
    if (isClosing()) return Status.NOT_SERVING;
    try {
      await probe.ping();
      return Status.SERVING;
    } catch {
      return Status.NOT_SERVING;
    }
  }
}

function serviceNotFound(): ConnectError {
  return callError(Code.NotFound, "this server has no such service", { reason: "SERVICE_NOT_FOUND" });
}
