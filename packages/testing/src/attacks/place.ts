import type { Runtime } from "../runtime.ts";

/** The runtime of the attacked server, with or without TLS. */
export interface Place {
  readonly title: string;
  readonly runtime: Runtime;
  readonly tls: boolean;
}

export const PLACES: readonly Place[] = [
  { title: "Node, plain", runtime: "node", tls: false },
  { title: "Node, TLS", runtime: "node", tls: true },
  { title: "Deno, plain", runtime: "deno", tls: false },
  { title: "Deno, TLS", runtime: "deno", tls: true },
];
