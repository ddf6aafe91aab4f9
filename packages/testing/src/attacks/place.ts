import type { Runtime } from "../runtime.ts";

/** The runtime of a server, and whether the server uses TLS. */
export interface Place {
  readonly title: string;
  readonly runtime: Runtime;
  readonly tls: boolean;
}

/** All places, in the order of the columns in the table of attacks. */
export const PLACES: readonly Place[] = [
  { title: "Node, plain", runtime: "node", tls: false },
  { title: "Node, TLS", runtime: "node", tls: true },
  { title: "Deno, plain", runtime: "deno", tls: false },
  { title: "Deno, TLS", runtime: "deno", tls: true },
];
