import { compressionGzip } from "@connectrpc/connect-node";
import { describe, expect, it } from "vitest";
import { exchangeAlike } from "./support/differential-compare.ts";
import { FORMS, requestOf } from "./support/differential-requests.ts";
import { openPair } from "./support/differential-servers.ts";
import { talk } from "./support/differential-service.ts";

const UNSET = Object.fromEntries(
  [
    "acceptCompression",
    "binaryOptions",
    "compressMinBytes",
    "connect",
    "grpc",
    "grpcWeb",
    "jsonOptions",
    "maxTimeoutMs",
    "readMaxBytes",
    "shutdownSignal",
    "writeMaxBytes",
  ].map((name) => [name, undefined]),
);

describe.each(FORMS)("options of $name", (form) => {
  const message = talk({ text: "hi", script: { size: 3000 } });

  it("an option adds a prefix to paths", async () => {
    const pair = await openPair({ requestPathPrefix: "/api" });
    const request = requestOf(form, message);
    expect((await exchangeAlike(pair, request)).status).toBe(404);
    const { status, effects } = await exchangeAlike(pair, { ...request, target: `/api${request.target}` });
    expect([status, effects.length]).toEqual([200, 3]);
    await pair.close();
  });

  it("options for protocols, compressions and message sizes work as in Connect's adapter", async () => {
    for (const options of [
      { grpc: false },
      { grpcWeb: false },
      { connect: false },
      { grpc: false, grpcWeb: false },
      // An undefined option counts as omitted. Both servers then support gzip and Brotli, and do not limit request
      // messages.
      { acceptCompression: undefined as never },
      UNSET as never,
      { shutdownSignal: AbortSignal.abort() },
      { readMaxBytes: 10 },
      { compressMinBytes: 0 },
      { acceptCompression: [] },
      { acceptCompression: [compressionGzip], compressMinBytes: 0 },
      { writeMaxBytes: 100 },
      { jsonOptions: { ignoreUnknownFields: false, alwaysEmitImplicit: true } },
      { binaryOptions: { readUnknownFields: false, writeUnknownFields: false } },
      { maxTimeoutMs: 1 },
    ]) {
      const pair = await openPair(options);
      const headers = [
        ["grpc-accept-encoding", "br,gzip"],
        ["accept-encoding", "br,gzip"],
        ["grpc-timeout", "10S"],
        ["connect-timeout-ms", "10000"],
      ] as const;
      await exchangeAlike(pair, requestOf(form, message));
      await exchangeAlike(pair, requestOf(form, message, { headers }));
      await exchangeAlike(pair, requestOf(form, message, { compression: "gzip" }));
      await exchangeAlike(pair, requestOf(form, message, { compression: "br", headers }));
      await exchangeAlike(pair, { ...requestOf(form, message), headers: [] });
      if (!form.binary && form.protocol === "connect") {
        await exchangeAlike(pair, { ...requestOf(form, message), body: Buffer.from('{"unknown":1}') });
      }
      await pair.close();
    }
  });
});
