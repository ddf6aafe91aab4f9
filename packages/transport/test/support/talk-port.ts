import { readFileSync } from "node:fs";
import { create, type DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { CallQueue, type EndpointMethod, serveNode } from "../../src/index.ts";
import { PlainSchema } from "../gen/talk/v1/plain_pb.ts";
import { type Talk, TalkService } from "../gen/talk/v1/talk_pb.ts";
import type { TalkPortOptions } from "./talk-ports.ts";

/**
 * The test service in a separate process on Node or Deno, as a target of attacks and fuzzing. `Look` and `Watch`
 * require no token. All other methods require a token. The endpoint `/talk` calls `Tell`. The endpoint `/large` returns
 * about 150 KB, like `/metrics` of the service.
 */
const { tls, authorization, ...limits } = JSON.parse(process.argv[2] ?? "") as TalkPortOptions;
const { look, tell, watch } = TalkService.method;
const isOpen = (method: DescMethod) => method === look || method === watch;
const MAX_BYTES = 1024 * 1024;
const LARGE = Array.from({ length: 4000 }, (_, i) => `a_series_of_figures{of="${i}"} ${i * 7919}\n`).join("");

/** Returns the text of the request, or a text of the requested length. */
const answer = async ({ text, number }: Talk) => ({
  text: number > 0 ? "x".repeat(Math.min(Number(number), MAX_BYTES)) : text,
});
const shown = (body: string): EndpointMethod => ({
  compressMinBytes: 1024,
  serve: async () => ({ status: 200, headers: { "content-type": "text/plain" }, body }),
});
const telling: EndpointMethod = {
  rpc: tell,
  maxBytes: MAX_BYTES,
  serve: async ({ target, body }, call) => {
    await call.invoke(create(PlainSchema, { text: body.length > 0 ? body.toString("utf8") : target }));
    return { status: 200, headers: { "content-type": "text/plain" }, body: "reported\n" };
  },
};

const server = await serveNode(
  {
    routes: (router) =>
      router.service(TalkService, {
        say: answer,
        look: answer,
        tell: async ({ text }) => ({ text: text.slice(0, 100) }),
        // Continues until the client or the port ends the stream.
        async *watch({ text }, { signal }) {
          yield { text };
          await new Promise((resolve) => {
            if (signal.aborted) resolve(undefined);
            else signal.addEventListener("abort", resolve);
          });
        },
      }),
    readMaxBytes: MAX_BYTES,
    queue: new CallQueue({ maxCalls: 4096 }),
    authorize: ({ headers, method }) => {
      if (isOpen(method) || headers["authorization"] === authorization) return;
      throw new ConnectError("the token is missing or wrong", Code.Unauthenticated);
    },
    isOpen,
    endpoints: new Map([
      ["/healthz", { methods: new Map([["GET", shown("ok\n")]]) }],
      ["/large", { methods: new Map([["GET", shown(LARGE)]]) }],
      ["/talk", { protocolName: "talk", methods: new Map(["GET", "PUT", "POST"].map((name) => [name, telling])) }],
    ]),
    cors: { origins: ["https://a.example"], requestHeaders: [], responseHeaders: [] },
    limits: { ...limits, streams: { max: 1000, lifetimeMs: 600_000 } },
    onError: (error) => console.log(JSON.stringify({ level: "error", msg: String(error) })),
  },
  {
    host: "127.0.0.1",
    port: 0,
    tls: tls && {
      cert: readFileSync(tls.certFile, "utf8"),
      key: readFileSync(tls.keyFile, "utf8"),
      clientCa: undefined,
    },
  },
);
console.log(JSON.stringify({ msg: "listening", url: server.url }));
