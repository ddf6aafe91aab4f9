import type { Certificate } from "@user-group-service/testing/certificates";
import { forSuite } from "@user-group-service/testing/opened";
import { type Runtime, UNFORESEEN } from "@user-group-service/testing/runtime";
import { expect } from "vitest";
import { type OwnPort, startPort } from "./start-port.ts";

export interface OwnPortOptions {
  readonly tls?: Pick<Certificate, "certFile" | "keyFile"> | undefined;
  readonly maxConnections?: number;
  readonly deadSessionCheckMs?: number;
  readonly arrivalTimeoutMs?: number;
  readonly readTimeoutMs?: number;
  readonly openArrivalTimeoutMs?: number;
  readonly headerTimeoutMs?: number;
  readonly streams?: { readonly max?: number; readonly lifetimeMs?: number };
  /** The address of a proxy. If a request comes from this address, its `X-Forwarded-For` header contains the client. */
  readonly proxy?: string;
}

/** Starts a port for one suite. The port has only the transport, not the service. */
export function suitePort(runtime: Runtime, options: OwnPortOptions, heapMib = 256): OwnPort {
  const nodeFlags = [`--max-old-space-size=${heapMib}`, "--expose-gc"];
  return forSuite(
    () => startPort("own-port.ts", runtime, options, { nodeFlags, denoFlags: [`--v8-flags=${nodeFlags.join(",")}`] }),
    async (port) => {
      expect(port.isRunning()).toBe(true);
      expect(port.output()).not.toMatch(UNFORESEEN);
      await port.stop();
    },
  );
}
