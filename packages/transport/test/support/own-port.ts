import { readFileSync } from "node:fs";
import { createContextValues } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { openPort } from "../../src/http/port.ts";
import type { ClientOf } from "../../src/limits.ts";
import { headerValue } from "../../src/protocol/headers.ts";
import { REFUSAL_STATUS } from "../../src/protocol/refusals.ts";
import type { OwnPortOptions } from "./own-ports.ts";

/**
 * A port in a separate process on Node or Deno. The first argument contains the options of the port as JSON. `/memory`
 * returns the memory use of the process. `/stream` never answers. For any other path, the header `x-bytes` sets the
 * size of the response.
 */
const { tls, proxy, ...limits } = JSON.parse(process.argv[2] ?? "{}") as OwnPortOptions;
const gc = (globalThis as { gc?: () => void }).gc;
let served = 0;
let failures = 0;

const text = (status: number, body: string) => ({
  status,
  headers: { "content-type": "text/plain", "content-length": String(Buffer.byteLength(body)) },
  body: Buffer.from(body),
});
const neverAnswers = Object.assign(async ({ body }: UniversalServerRequest) => {
  for await (const _piece of body as AsyncIterable<Uint8Array>);
  return new Promise<never>(() => {});
}, {} as UniversalHandler);
const clientOf: ClientOf = (peer, headers) => {
  if (peer !== proxy) return peer;
  return headers && (headerValue(headers, "x-forwarded-for") ?? peer);
};
const port = await openPort({
  limits: { ...limits, clientOf },
  refuse: ({ kind }) => text(REFUSAL_STATUS[kind] ?? 400, `refused: ${kind}`),
  onError: () => {
    failures++;
  },
  find: ({ target, headers }) => {
    if (target === "/stream") return { handler: neverAnswers, contextValues: createContextValues() };
    return {
      call: { isOpen: target === "/open", leave: () => {} },
      maxBytes: 1024 * 1024,
      serve: async ({ body }) => {
        if (target === "/memory") {
          gc?.();
          const { rss, heapUsed, external } = process.memoryUsage();
          return text(200, JSON.stringify({ rss, heapUsed, external, served, failures }));
        }
        served++;
        if (body.byteLength > 1024 * 1024) return text(413, "too large");
        return text(200, "a".repeat(Number(headers["x-bytes"] ?? 2)));
      },
    };
  },
  host: "127.0.0.1",
  port: 0,
  tls: tls && {
    cert: readFileSync(tls.certFile, "utf8"),
    key: readFileSync(tls.keyFile, "utf8"),
    clientCa: undefined,
  },
});
console.log(JSON.stringify({ msg: "listening", url: port.url }));
