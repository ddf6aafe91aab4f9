import type { HandlerContext } from "@connectrpc/connect";
import { expect, it } from "vitest";
import {
  type HealthCheckRequest,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import type { ReadyKind } from "../domain/store.ts";
import { healthService } from "./health.ts";

const of = (service: string) => ({ service }) as HealthCheckRequest;

/** @param ready the kinds of calls that work */
function open(ready: readonly ReadyKind[] = ["reads", "changes"]) {
  const shutdown = new AbortController();
  const readiness = { is: async (kind: ReadyKind) => ready.includes(kind) };
  const health = healthService({ readiness, isClosing: () => shutdown.signal.aborted }, ["a.Service"]);
  return { health, shutdown, context: { signal: shutdown.signal } as HandlerContext };
}

it("reports for every service whether Redis answers reads, and for the name `changes` whether Redis accepts changes", async () => {
  const { health } = open(["reads"]);
  for (const name of ["", "a.Service"]) expect(await health.check(of(name))).toEqual({ status: Status.SERVING });
  expect(await health.check(of("changes"))).toEqual({ status: Status.NOT_SERVING });
  expect(await health.list()).toEqual({
    statuses: {
      "": { status: Status.SERVING },
      "a.Service": { status: Status.SERVING },
      changes: { status: Status.NOT_SERVING },
    },
  });
});

it("reports NOT_SERVING during a shutdown", async () => {
  const { health, shutdown } = open();
  expect(await health.check(of("a.Service"))).toEqual({ status: Status.SERVING });
  shutdown.abort();
  expect(await health.check(of("a.Service"))).toEqual({ status: Status.NOT_SERVING });
  expect(await health.check(of(""))).toEqual({ status: Status.NOT_SERVING });
  const status = Status.NOT_SERVING;
  expect(await health.list()).toEqual({ statuses: { "": { status }, "a.Service": { status }, changes: { status } } });
});

it.each([
  ["a.Service", [Status.SERVING, Status.NOT_SERVING]],
  ["another.Service", [Status.SERVICE_UNKNOWN]],
])("sends a watcher of %s the final status before the stream ends", async (service, expected) => {
  const { health, shutdown, context } = open();
  const seen: Status[] = [];
  for await (const { status } of health.watch(of(service), context)) {
    seen.push(status);
    shutdown.abort();
  }
  expect(seen).toEqual(expected);
});
