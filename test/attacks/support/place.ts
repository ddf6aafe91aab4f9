import type { Certificates } from "@user-group-service/testing/certificates";
import { collectable } from "@user-group-service/testing/process-usage";
import type { Runtime } from "@user-group-service/testing/runtime";
import { type ServerOptions, startServer, type TestServer } from "../../support/server.ts";

/** A way to run the service. */
export interface Place {
  readonly title: string;
  readonly runtime: Runtime;
  readonly tls: boolean;
}

/** Every place that is attacked, in the order of the table's columns. */
export const PLACES: readonly Place[] = [
  { title: "Node, plain", runtime: "node", tls: false },
  { title: "Node, TLS", runtime: "node", tls: true },
  { title: "Deno, plain", runtime: "deno", tls: false },
  { title: "Deno, TLS", runtime: "deno", tls: true },
];

/** Starts a server whose garbage can be collected from outside. Default: with the embedded store. */
export function startAt(
  { runtime, tls }: Place,
  certificates: Certificates,
  { env, ...options }: Pick<ServerOptions, "env" | "like" | "redisUrl"> = {},
): Promise<TestServer> {
  const { env: collector = {}, denoFlags } = collectable(runtime);
  return startServer({
    ...options,
    runtime,
    tls: tls ? certificates : undefined,
    // As it is by default: see test/support/server.ts.
    env: { AUTH_FAILURE_LIMIT: "", ...collector, ...env },
    ...(denoFlags && { denoFlags }),
  });
}
