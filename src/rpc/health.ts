import { Code, type ConnectError, type HandlerContext } from "@connectrpc/connect";
import {
  type HealthCheckRequest,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import type { StoreProbe } from "../domain/store.ts";
import { callError } from "./errors.ts";

/** How often the state is looked at for those who watch it, in milliseconds. */
const WATCH_INTERVAL_MS = 1000;

/**
 * grpc.health.v1.Health (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
 * Every service is as well as the store is.
 */
export class HealthService {
  readonly #probe: StoreProbe;
  readonly #services: readonly string[];

  /** @param services the names of the services; the server as a whole is `""` */
  constructor(probe: StoreProbe, services: readonly string[]) {
    this.#probe = probe;
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
    while (!signal.aborted) {
      const status = this.#services.includes(service) ? await this.#status() : Status.SERVICE_UNKNOWN;
      if (status !== last) yield { status };
      last = status;
      await delay(WATCH_INTERVAL_MS, signal);
    }
  }

  async #status(): Promise<Status> {
    try {
      await this.#probe.ping();
      return Status.SERVING;
    } catch {
      return Status.NOT_SERVING;
    }
  }
}

function serviceNotFound(): ConnectError {
  return callError(Code.NotFound, "this server has no such service", { reason: "SERVICE_NOT_FOUND" });
}

/** Waits, or less when the signal aborts. */
function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
