import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { http1 } from "@user-group-service/testing/http";
import { waitFor } from "@user-group-service/testing/wait";
import type { Redis } from "ioredis";
import { expect } from "vitest";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { REVOKED_CHANNEL } from "../../src/store/keys.ts";
import type { TestServer } from "./server.ts";

type Server = Pick<TestServer, "url">;

export async function waitUntilReady(
  { url }: Server,
  isReady = true,
  kind: "reads" | "changes" = "reads",
): Promise<void> {
  const [status, path] = [isReady ? 200 : 503, kind === "reads" ? "/readyz" : "/readyz?changes"];
  await waitFor(`${path} responds ${status}`, async () => (await http1(url, path)).status === status);
}

/**
 * Waits until `count` workers have subscribed to revocations. A worker accepts calls before it subscribes, and clears
 * its token cache when it subscribes. So call this function if a test depends on the token cache.
 */
export async function waitForSubscriptions(redis: Redis, count: number): Promise<void> {
  const subscribed = async () => Number((await redis.pubsub("NUMSUB", REVOKED_CHANNEL))[1]);
  await waitFor(`${count} workers have subscribed`, async () => (await subscribed()) === count);
}

/** Returns the URL of a server's port for operators. The server must have been started with METRICS_PORT. */
export function metricsUrlOf(server: Pick<TestServer, "log">): string {
  return String(server.log().find(({ msg }) => msg === "listening")?.["metrics_url"]);
}

export function healthOf({ url }: Server) {
  return createClient(Health, createGrpcTransport({ baseUrl: url }));
}

export async function metricOf(server: Server, ...of: Parameters<Metrics>): Promise<number | undefined> {
  return (await metricsOf(server))(...of);
}

/**
 * Returns the value of the series that has this name and these labels. Undefined if no series matches. Fails the test
 * if several series match.
 */
export type Metrics = (name: string, labels: { readonly [label: string]: string }) => number | undefined;

/**
 * Returns metrics that the server collects after this function was called. The server caches metrics for a quarter of a
 * second, so this function waits until the text changes. The server must have been started without the setting WORKERS.
 */
export async function metricsTextOf({ url }: Server): Promise<string> {
  const read = async () => (await http1(url, "/metrics")).body.toString();
  const reused = await read();
  return waitFor("the server collects metrics again", async () => {
    const text = await read();
    return text === reused ? undefined : text;
  });
}

/** Like `metricsTextOf`, but parses the metrics. */
export async function metricsOf(server: Server): Promise<Metrics> {
  const lines = (await metricsTextOf(server)).split("\n");
  return (name, labels) => {
    const texts = Object.entries(labels).map(([label, text]) => `${label}="${text}"`);
    const found = lines.filter((line) => line.startsWith(`${name}{`) && texts.every((text) => line.includes(text)));
    expect(found.length).toBeLessThanOrEqual(1);
    return found[0] === undefined ? undefined : Number(found[0].slice(found[0].lastIndexOf(" ")));
  };
}
