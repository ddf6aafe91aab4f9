import type { HandlerContext } from "@connectrpc/connect";
import { expect, it } from "vitest";
import {
  type HealthCheckRequest,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import { StoreUnavailable } from "../domain/errors.ts";
import { healthService, sharedProbe } from "./health.ts";

const of = (service: string) => ({ service }) as HealthCheckRequest;

/** Health of a store that answers, in a process that closes when the test says so. */
function open() {
  const shutdown = new AbortController();
  const probe = { ping: async () => {} };
  const health = healthService({ probe, isClosing: () => shutdown.signal.aborted }, ["a.Service"]);
  return { health, shutdown, context: { signal: shutdown.signal } as HandlerContext };
}

it("does not serve while the process closes", async () => {
  const { health, shutdown } = open();
  expect(await health.check(of("a.Service"))).toEqual({ status: Status.SERVING });
  shutdown.abort();
  expect(await health.check(of("a.Service"))).toEqual({ status: Status.NOT_SERVING });
  expect(await health.check(of(""))).toEqual({ status: Status.NOT_SERVING });
  const status = Status.NOT_SERVING;
  expect(await health.list()).toEqual({ statuses: { "": { status }, "a.Service": { status } } });
});

it.each([
  ["a.Service", [Status.SERVING, Status.NOT_SERVING]],
  ["another.Service", [Status.SERVICE_UNKNOWN]],
])("tells who watches %s how it ends", async (service, expected) => {
  const { health, shutdown, context } = open();
  const seen: Status[] = [];
  for await (const { status } of health.watch(of(service), context)) {
    seen.push(status);
    shutdown.abort();
  }
  expect(seen).toEqual(expected);
});

const logger = { info: () => {}, error: () => {} };

/** A probe that answers when the test says so, and counts. */
function slowProbe() {
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const ping = () => new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }));
  return { ping, waiting };
}

it("asks once for all who ask at the same time", async () => {
  const { ping, waiting } = slowProbe();
  const probe = sharedProbe({ ping }, { logger, keptMs: 0 });
  const answers = [probe.ping(), probe.ping(), probe.ping()];
  expect(waiting).toHaveLength(1);
  waiting[0]?.resolve();
  await Promise.all(answers);
});

it("keeps what it was told for a while", async () => {
  for (const end of ["resolve", "reject"] as const) {
    const { ping, waiting } = slowProbe();
    const probe = sharedProbe({ ping }, { logger, keptMs: 60_000 });
    const first = probe.ping().catch((error: unknown) => error);
    waiting[0]?.[end](new StoreUnavailable());
    await first;
    expect(await probe.ping().catch((error: unknown) => error)).toBe(await first);
    expect(waiting).toHaveLength(1);
  }
});

it("asks again after that, whatever it was told", async () => {
  const { ping, waiting } = slowProbe();
  const probe = sharedProbe({ ping }, { logger, keptMs: 0 });
  const first = probe.ping();
  waiting[0]?.reject(new StoreUnavailable());
  await expect(first).rejects.toThrow(StoreUnavailable);
  const second = probe.ping();
  waiting[1]?.resolve();
  await second;
  const third = probe.ping();
  waiting[2]?.reject(new StoreUnavailable());
  await expect(third).rejects.toThrow(StoreUnavailable);
});
