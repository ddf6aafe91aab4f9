import { type RunningProcess, startProcess } from "@user-group-service/testing/process";
import { denoRun, RUNTIMES } from "@user-group-service/testing/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const SCRIPT = "test/fixtures/internals/main.js";
const COMMANDS = {
  node: [process.execPath, SCRIPT],
  deno: [...denoRun(["--allow-net=127.0.0.1", "--allow-read=test/fixtures/tls"]), SCRIPT],
};

// Where one fails, the runtime has changed what it keeps to itself. Then look at the file that it names.
describe.each(RUNTIMES)("what is used of the private parts of %s:", (runtime) => {
  let found: { readonly [internal: string]: boolean };
  let looking: RunningProcess;
  afterAll(() => looking.stop());
  beforeAll(async () => {
    looking = startProcess(COMMANDS[runtime]);
    expect(await looking.exited(), looking.output()).toBe(0);
    found = JSON.parse(looking.output());
  });

  it("`parser.onIncoming` of a socket takes its requests, and can be replaced (packages/transport/src/http/connections.ts)", () =>
    expect(found["parser.onIncoming"]).toBe(true));

  it("node:http closes a connection by `destroySoon` of its socket (packages/transport/src/http/connections.ts)", () =>
    expect(found["destroySoon"]).toBe(true));

  it("node:http closes idle connections by `closeIdleConnections` of the server, which can be replaced (packages/transport/src/http/port.ts)", () =>
    expect(found["closeIdleConnections"]).toBe(true));

  it("node:http reads a TLS connection with another listener of `data` as a stream (packages/transport/src/http/port.ts)", () =>
    expect(found["data"]).toBe(true));

  if (runtime === "node") {
    it("`read(0)`, twice, ends a request without a body (packages/transport/src/http/http1.ts)", () =>
      expect(found["read(0)"]).toBe(true));

    it("V8 has the flag `--heap-growing-percent` (src/runtime.ts)", () =>
      expect(found["heap-growing-percent"]).toBe(true));
  } else {
    it("a stream of node:http2 has the handle `kHandle`, and is shut down by its prototype (packages/transport/src/http/deno-stream-leak.ts)", () =>
      expect(found["kHandle"]).toBe(true));
  }
});
