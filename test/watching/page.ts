import { timestampFromMs, timestampNow } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { waitFor } from "@user-group-service/testing/wait";
import { inject } from "vitest";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { Role } from "../../gen/usergroup/admin/v1/api_token_pb.ts";
import { ADMIN_ENV, ADMIN_TOKEN, customerOf, presenting } from "../support/admin.ts";
import { redisUrl } from "../support/opened.ts";
import { metricsUrlOf } from "../support/operations.ts";
import type { ServerOptions, TestServer } from "../support/server.ts";
import { JOB } from "./files.ts";

/** A series of a metrics page, with the labels `job` and `instance` that Prometheus adds. */
export interface Series {
  readonly metric: string;
  readonly labels: { readonly [label: string]: string };
}

/**
 * Returns settings with which the server exposes all metrics. The metrics of traces exist only if an endpoint is set.
 * No collector needs to run at the endpoint, because the sampler records no trace.
 */
export function watchedServer(): ServerOptions {
  const traces = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_TRACES_SAMPLER: "always_off" };
  return { redisUrl, tls: inject("certificates"), env: { ...ADMIN_ENV, ...traces, METRICS_PORT: "0" } };
}

export function pageOf(server: Pick<TestServer, "log">): string {
  return `${metricsUrlOf(server)}/metrics`;
}

/**
 * Creates an API token that expires, and a webhook that cannot deliver. Some metrics exist only with such a token or
 * webhook. Waits until the metrics page contains these metrics.
 *
 * @returns all series of the metrics page
 */
export async function exposeAll(server: TestServer, days = 3): Promise<Series[]> {
  const environment = customerOf(server);
  const { cert: ca } = inject("certificates").ca;
  const transport = createConnectTransport({ baseUrl: server.url, httpVersion: "1.1", nodeOptions: { ca } });
  const adminOf = (token: string) => createClient(AdminService, presenting(transport, token));
  const expireTime = timestampFromMs(Date.now() + days * 86_400_000);
  const values = { environment, displayName: "ending", role: Role.ADMIN, expireTime };
  const { token } = await adminOf(ADMIN_TOKEN).createApiToken(values);
  await adminOf(ADMIN_TOKEN).createWebhook({ environment, displayName: "lost", url: "https://webhooks.invalid/" });
  const userGroups = [{ providedId: "imported", token: "a-token-of-another-system-0123456789abcdef" }];
  return waitFor("the metrics page reports the token and the webhook", async () => {
    // The metric of a token exists only while the token is in the cache of the process. The process clears this cache
    // when it subscribes to revocations. So use the token in each attempt.
    await adminOf(token).importUserGroups({ environment, userGroups, snapshotTime: timestampNow() });
    const series = await readSeries(pageOf(server));
    const isReported = (name: string) => series.some(({ metric }) => metric === name);
    const reported = ["ugs_api_token_expire_time_seconds", "ugs_webhook_undelivered_age_seconds"];
    return reported.every(isReported) ? series : undefined;
  });
}

async function readSeries(page: string): Promise<Series[]> {
  const text = await (await fetch(page)).text();
  const own = { job: JOB, instance: "a:1" };
  const exposed = [...text.matchAll(/^([a-z_0-9]+)(?:\{(.*)\})? \S+$/gm)].map(([, metric = "", inner = ""]) => {
    const labels = [...inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]);
    return { metric, labels: { ...Object.fromEntries(labels), ...own } };
  });
  return [...exposed, { metric: "up", labels: own }];
}

export function formatSeries({ metric, labels }: Series): string {
  const inner = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return `${metric}{${inner.join(",")}}`;
}
