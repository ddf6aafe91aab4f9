import { connect } from "node:http2";
import type { ServiceImpl } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TalkService } from "../test/gen/talk/v1/talk_pb.ts";
import { type NodeServer, type ServeOptions, serveNode } from "./index.ts";

const ORIGIN = "https://app.example";
const JSON_TYPE = "application/json";
const MESSAGES = "00000000027b7d";

const talk: Partial<ServiceImpl<typeof TalkService>> = {
  say: (_request, { responseHeader }) => {
    responseHeader.set("vary", "accept-language");
    responseHeader.set("x-own", "1");
    return {};
  },
  async *watch(_request, { responseHeader }) {
    responseHeader.set("vary", "accept-language");
    responseHeader.set("x-own", "1");
    yield {};
  },
};
const options: ServeOptions = {
  routes: ({ service }) => service(TalkService, talk),
  cors: { origins: [ORIGIN], requestHeaders: [], responseHeaders: [] },
};

const CALLS = [
  ["a unary call", "Say", JSON_TYPE, Buffer.from("{}")],
  ["a stream", "Watch", "application/connect+json", Buffer.from(MESSAGES, "hex")],
  [
    "a stream in gRPC-Web text",
    "Watch",
    "application/grpc-web-text+json",
    Buffer.from(Buffer.from(MESSAGES, "hex").toString("base64")),
  ],
] as const;

describe("the response of a method that sets Vary itself", () => {
  let port: NodeServer;
  beforeAll(async () => {
    port = await serveNode(options, { host: "127.0.0.1", port: 0 });
  });
  afterAll(() => port.destroy());

  it.each(CALLS)(
    "has the Vary values of the method and of CORS over HTTP/1.1: %s",
    async (_what, method, type, body) => {
      const response = await fetch(`${port.url}/talk.v1.TalkService/${method}`, {
        method: "POST",
        headers: { "content-type": type, origin: ORIGIN },
        body,
      });
      expect(response.status).toBe(200);
      const { headers } = response;
      await response.arrayBuffer();
      expect([headers.get("vary"), headers.get("x-own"), headers.get("access-control-allow-origin")]).toEqual([
        "accept-language, origin",
        "1",
        ORIGIN,
      ]);
    },
  );

  it.each(CALLS)("has the Vary values of the method and of CORS over HTTP/2: %s", async (_what, method, type, body) => {
    const session = connect(port.url);
    const path = `/talk.v1.TalkService/${method}`;
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": type, origin: ORIGIN });
    stream.end(body);
    const headers = await new Promise<{ [name: string]: unknown }>((resolve) => stream.once("response", resolve));
    expect(headers).toMatchObject({
      ":status": 200,
      vary: "accept-language, origin",
      "x-own": "1",
      "access-control-allow-origin": ORIGIN,
    });
    session.destroy();
  });
});
