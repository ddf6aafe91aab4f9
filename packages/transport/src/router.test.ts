import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";
import { Code, ConnectError, createContextKey } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { TalkService } from "../test/gen/talk/v1/talk_pb.ts";
import type { Endpoint, EndpointMethod } from "./endpoints.ts";
import type { HeaderRecord, HttpRequest, Route } from "./http-types.ts";
import type { Authorize } from "./protocol/admission.ts";
import { CallQueue } from "./protocol/call-queue.ts";
import type { Refusal } from "./protocol/refusals.ts";
import { Router, type RouterOptions } from "./router.ts";

const kCaller = createContextKey("nobody");
const PATH = "/talk.v1.TalkService/Say";
const JSON_TYPE = { "content-type": "application/json" };

function authorizeBy(decide: (name: string) => boolean, isAsync: boolean): Authorize {
  return ({ headers, contextValues }) => {
    const name = String(headers["x-caller"] ?? "");
    const finish = (isIn: boolean) => {
      if (!isIn) throw new ConnectError("no", Code.PermissionDenied);
      contextValues.set(kCaller, name);
    };
    return isAsync ? Promise.resolve(decide(name)).then(finish) : finish(decide(name));
  };
}

/**
 * Creates a router with one method. The method awaits the promises in `waiting`. `seen` contains the caller of each
 * call.
 */
function routerWith(options: Partial<RouterOptions> = {}) {
  const seen: string[] = [];
  const waiting: Promise<unknown>[] = [];
  const router = new Router({
    ...options,
    routes: ({ rpc }) =>
      rpc(TalkService.method.say, async (request, { values }) => {
        seen.push(values.get(kCaller));
        await Promise.all(waiting);
        if (request.text === "fail") throw new ConnectError("failed", Code.NotFound);
        return {};
      }),
  });
  const route = async (caller = "", path = PATH, httpMethod = "POST") =>
    (await router.find({ ...request("", path, { ...JSON_TYPE, "x-caller": caller }), httpMethod })) as Route;
  return { router, route, seen, waiting };
}

function request(body: string, target = PATH, headers: HeaderRecord = JSON_TYPE): HttpRequest {
  return {
    ...{ httpMethod: "POST", target, headers, body: Buffer.from(body) },
    arrived: Date.now(),
    isDisconnected: false,
    unreadBytes: 0,
    peerAddress: () => "",
    url: () => `http://x${target}`,
    pauseConnections: () => [],
    requestSignal: () => new AbortController().signal,
  };
}

const textOf = (body: Uint8Array | string) => Buffer.from(body as string).toString();

it("accepts only POST, even for methods without side effects", async () => {
  const onRefused = (refusal: Refusal) => new ConnectError(JSON.stringify(refusal), Code.Unimplemented);
  const routes: RouterOptions["routes"] = ({ rpc }) => rpc(TalkService.method.look, async () => ({}));
  const router = new Router({ onRefused, routes });
  const target = "/talk.v1.TalkService/Look?connect=v1&encoding=json&message=%7B%7D";
  const route = (await router.find({ ...request("", target, {}), httpMethod: "GET" })) as Route;
  const { status, body } = await route.serve(request("", target, {}));
  expect([status, textOf(body)]).toMatchObject([405, expect.stringContaining("POST")]);
});

it("throws for the unsupported option requireConnectProtocolHeader", () => {
  expect(() => routerWith({ requireConnectProtocolHeader: true })).toThrow("requireConnectProtocolHeader");
});

describe.each([
  ["asynchronous", true],
  ["synchronous", false],
] as const)("%s authorization", (_kind, isAsync) => {
  it("passes the context values that authorize sets to the call", async () => {
    const { route, seen } = routerWith({ authorize: authorizeBy(() => true, isAsync) });
    for (const [body, status] of [
      ["{}", 200],
      ['{"text":"fail"}', 404],
      ["{", 400],
    ] as const) {
      const found = await route("ada");
      expect(found.maxBytes).toBeGreaterThan(0);
      expect((await found.serve(request(body))).status).toBe(status);
    }
    expect(seen).toEqual(["ada", "ada"]);
  });

  it("refuses a call before its body is read", async () => {
    const { route, seen } = routerWith({ authorize: authorizeBy((name) => name !== "eve", isAsync) });
    const found = await route("eve");
    expect(found.maxBytes).toBeUndefined();
    const { status, body } = await found.serve(request("{"));
    expect([status, JSON.parse(textOf(body))]).toEqual([403, { code: "permission_denied", message: "no" }]);
    expect(seen).toEqual([]);
  });

  it("applies to the RPC of an endpoint", async () => {
    const endpoint: Endpoint = {
      methods: new Map([
        ["PUT", { rpc: TalkService.method.say, serve: async () => ({ status: 200, headers: {}, body: "" }) }],
      ]),
    };
    const authorize = authorizeBy((name) => name !== "eve", isAsync);
    const { route } = routerWith({ authorize, endpoints: new Map([["/health", endpoint]]) });
    const statusFor = async (caller: string) =>
      (await (await route(caller, "/health", "PUT")).serve(request("", "/health"))).status;
    expect([await statusFor("ada"), await statusFor("eve")]).toEqual([200, 403]);
  });
});

describe("an endpoint", () => {
  const seen: number[] = [];
  const serve = async ({ body }: HttpRequest) => {
    seen.push(body.byteLength);
    return { status: 200, headers: {}, body: "" };
  };
  const endpointOf = (method: Omit<EndpointMethod, "serve">): Endpoint => ({
    methods: new Map([["PUT", { ...method, serve }]]),
  });

  it.each([
    ["without an RPC", undefined],
    ["with an RPC", TalkService.method.say],
  ])("%s limits the size of request bodies", async (_title, rpc) => {
    const endpoints = new Map([
      ["/any", endpointOf({ ...(rpc && { rpc }) })],
      ["/some", endpointOf({ ...(rpc && { rpc }), maxBytes: 10 })],
    ]);
    const { route } = routerWith({ endpoints });
    expect((await route("", "/any", "PUT")).maxBytes).toBeUndefined();
    expect((await route("", "/some", "PUT")).maxBytes).toBe(10);
  });

  describe("with encoded bodies", () => {
    const bodies: string[] = [];
    const method: EndpointMethod = {
      maxBytes: 100,
      compressMinBytes: 10,
      serve: async ({ body }) => {
        bodies.push(textOf(body));
        return { status: 200, headers: { vary: "accept" }, body: body.byteLength > 10 ? "x".repeat(50) : "x" };
      },
    };
    const endpoints = new Map([["/text", { methods: new Map([["PUT", method]]) }]]);

    async function put(body: Buffer, fields: { [name: string]: string }) {
      bodies.length = 0;
      const { route } = routerWith({ endpoints });
      return (await route("", "/text", "PUT")).serve({ ...request("", "/text"), headers: fields, body });
    }

    it.each([
      ["gzip", gzipSync, "gzip"],
      ["BR", brotliCompressSync, "gzip;q=0, br"],
      ["identity", (text: string) => Buffer.from(text), "deflate, GZIP ; q=0.5"],
    ])(
      "decompresses a body with the encoding %s, and compresses the response with an accepted encoding",
      async (name, compress, accepted) => {
        const fields = { "content-encoding": name, "accept-encoding": accepted };
        const { headers, body } = await put(compress("some longer text"), fields);
        expect(bodies).toEqual(["some longer text"]);
        expect(headers["content-encoding"]).toBe(accepted.endsWith("br") ? "br" : "gzip");
        expect(headers).toMatchObject({ vary: "accept, accept-encoding", "content-length": String(body.length) });
        const inflate = headers["content-encoding"] === "br" ? brotliDecompressSync : gunzipSync;
        expect(inflate(body as Uint8Array).toString()).toBe("x".repeat(50));
      },
    );

    it.each([
      ["x", "no-store", undefined],
      ["x", "max-age=60", "accept-encoding"],
      ["x".repeat(50), "no-store", "accept-encoding"],
    ])("an endpoint with the response %j and Cache-Control %s sets Vary to %s", async (body, cached, vary) => {
      const answering: EndpointMethod = {
        compressMinBytes: 10,
        serve: async () => ({ status: 200, headers: { "cache-control": cached }, body }),
      };
      const { route } = routerWith({ endpoints: new Map([["/text", { methods: new Map([["GET", answering]]) }]]) });
      const answer = await (await route("", "/text", "GET")).serve({ ...request("", "/text"), body: Buffer.alloc(0) });
      expect(answer.headers["vary"]).toBe(vary);
    });

    it.each(["", "identity", "gzip;q=0", "zip", "*"])(
      "does not compress the response for a client that accepts %j",
      async (accepted) => {
        const { headers, body } = await put(Buffer.from("some longer text"), { "accept-encoding": accepted });
        expect([headers["content-encoding"], headers["content-length"], body]).toEqual([
          undefined,
          "50",
          "x".repeat(50),
        ]);
      },
    );

    it("does not compress a short response", async () => {
      const { headers, body } = await put(Buffer.from("short"), { "accept-encoding": "gzip" });
      expect([headers["content-encoding"], headers["content-length"], body]).toEqual([undefined, "1", "x"]);
    });

    it.each([
      ["an unknown encoding", Buffer.from("a"), "zip", 415],
      ["a body that is not in its declared encoding", Buffer.from("a"), "gzip", 400],
      ["a body longer than the limit", Buffer.alloc(101), "identity", 413],
      ["a body longer than the limit after decompression", gzipSync(Buffer.alloc(101)), "gzip", 413],
    ])("refuses %s", async (_title, body, encoding, status) => {
      expect((await put(body, { "content-encoding": encoding })).status).toBe(status);
      expect(bodies).toEqual([]);
    });
  });

  it("an endpoint responds with an error if its method throws", async () => {
    const failing: Endpoint = { methods: new Map([["PUT", { serve: () => Promise.reject(new Error("inner")) }]]) };
    const { route } = routerWith({ endpoints: new Map([["/fails", failing]]) });
    const { status, body } = await (await route("", "/fails", "PUT")).serve(request("", "/fails"));
    expect([status, textOf(body)]).toEqual([500, JSON.stringify({ code: "internal", message: "internal error" })]);
  });
});

it("awaits a thenable that authorize returns", async () => {
  // biome-ignore lint/suspicious/noThenProperty: a thenable is an object with this property
  const authorize = () => ({ then: (_resolve: unknown, reject: (reason: unknown) => void) => reject(new Error("no")) });
  const { route, seen } = routerWith({ authorize: authorize as never });
  expect((await (await route()).serve(request("{}"))).status).toBe(500);
  expect(seen).toEqual([]);
});

it("routes synchronously if authorization is synchronous", () => {
  const { router } = routerWith({ authorize: authorizeBy(() => true, false) });
  expect(router.find(request(""))).not.toBeInstanceOf(Promise);
});

describe("the limit on calls in flight", () => {
  const limited = (maxCalls: number, options: Partial<RouterOptions> = {}) =>
    routerWith({ ...options, queue: new CallQueue({ maxCalls }) });

  it("counts each call once, until the call ends", async () => {
    const { route, waiting } = limited(1);
    let answer = () => {};
    const first = await route();
    waiting.push(new Promise<void>((resolve) => (answer = resolve)));
    const answered = first.serve(request("{}"));
    const refused = await route();
    // The transport does not read the body of a refused call.
    expect([refused.maxBytes, (await refused.serve(request("{}"))).status]).toEqual([undefined, 429]);
    answer();
    waiting.length = 0;
    expect((await answered).status).toBe(200);
    first.call?.leave();
    expect((await (await route()).serve(request("{}"))).status).toBe(200);
    expect((await (await route()).serve(request("{}"))).status).toBe(429);
  });

  it("counts calls whose authorization is pending", async () => {
    let decide = () => {};
    const decision = new Promise<void>((resolve) => (decide = resolve));
    const { router, route } = limited(1, { authorize: () => decision });
    const first = router.find(request(""));
    expect((await (await route()).serve(request("{}"))).status).toBe(429);
    decide();
    const found = (await first) as Route;
    expect((await found.serve(request("{}"))).status).toBe(200);
    found.call?.leave();
    expect((await (await route()).serve(request("{}"))).status).toBe(200);
  });

  it("does not count a call that was denied asynchronously", async () => {
    let deny = (_: Error) => {};
    let decision: Promise<void> | undefined = new Promise((_, reject) => (deny = reject));
    const { router, route } = limited(1, { authorize: () => decision });
    const first = router.find(request(""));
    expect((await (await route()).serve(request("{}"))).status).toBe(429);
    deny(new ConnectError("no", Code.PermissionDenied));
    expect((await ((await first) as Route).serve(request("{}"))).status).toBe(403);
    decision = undefined;
    expect((await (await route()).serve(request("{}"))).status).toBe(200);
  });

  it("the limit does not apply to open methods", async () => {
    const { route } = limited(0, { isOpen: () => true });
    expect((await (await route()).serve(request("{}"))).status).toBe(200);
  });
});

describe("refusals", () => {
  const heard: [Refusal, string | undefined][] = [];
  const options: Partial<RouterOptions> = {
    readMaxBytes: 100,
    onRefused: (refusal, { method, protocolName }) => {
      heard.push([refusal, method?.name ?? protocolName]);
      return new ConnectError(refusal.kind, Code.Aborted);
    },
  };

  async function refusal(body: string, path = PATH, httpMethod = "POST") {
    heard.length = 0;
    const { route } = routerWith(options);
    const { status, body: answer } = await (await route("", path, httpMethod)).serve(request(body, path));
    return { status, message: JSON.parse(textOf(answer)).message as string, heard: heard[0] };
  }

  it.each([
    ["message-too-large", JSON.stringify({ text: "x".repeat(200) }), PATH, "POST", { maxBytes: 100 }],
    ["malformed-message", "{", PATH, "POST", { isBinary: false }],
    ["http-method", "", PATH, "PATCH", { httpMethod: "PATCH" }],
    ["not-found", "", "/nowhere", "POST", {}],
    ["not-found", "", "/a.B/C", "POST", {}],
    ["malformed-http", "", "/caf\u00e9", "POST", {}],
  ])("a refusal is passed to onRefused with its kind: %s", async (kind, body, path, httpMethod, fields) => {
    const { message, heard } = await refusal(body, path, httpMethod);
    expect([message, heard?.[0]]).toEqual([kind, expect.objectContaining({ kind, ...fields })]);
    if (path === PATH) expect(heard?.[1]).toBe("Say");
  });

  it("the refusal of a missing RPC has HTTP status 404 for Connect, and 200 for gRPC and gRPC-Web", async () => {
    const { router } = routerWith(options);
    const answers: (readonly [string, number])[] = [];
    for (const type of ["application/json", "application/connect+json", "application/grpc", "application/grpc-web"]) {
      const found = router.find(request("", "/a.B/C", { "content-type": type })) as Route;
      const { status, headers } = await found.serve(request("", "/a.B/C"));
      answers.push([String(headers["content-type"]), status]);
    }
    expect(answers).toEqual([
      ["application/json", 404],
      ["application/json", 404],
      ["application/grpc+proto", 200],
      ["application/grpc-web+proto", 200],
    ]);
  });

  it("the refusal of a stream contains the metadata of the error once", async () => {
    const error = new ConnectError("no", Code.PermissionDenied, { "x-why": "because" });
    const router = new Router({
      routes: ({ rpc }) => rpc(TalkService.method.watch, async function* () {}),
      authorize: () => {
        throw error;
      },
    });
    const path = "/talk.v1.TalkService/Watch";
    const found = router.find(request("", path, { "content-type": "application/connect+json" })) as Route;
    const { headers, body } = await found.serve(request("", path));
    expect(headers["x-why"]).toBe("because");
    expect(textOf(body)).not.toContain("because, because");
  });

  it("a refusal is readable by pages from other origins", () => {
    const cors = { origins: "*", requestHeaders: [], responseHeaders: [] } as const;
    const { router } = routerWith({ ...options, cors });
    const response = router.refuse({ kind: "too-many-streams" }, { origin: "https://a.example" });
    expect(response.headers["access-control-allow-origin"]).toBe("*");
  });

  it("the refusal of a request that is not a call contains only a status by default", async () => {
    const { router } = routerWith();
    const found = router.find({ ...request("", "/nowhere", {}), httpMethod: "GET" }) as Route;
    expect(await found.serve(request("", "/nowhere"))).toEqual({ status: 404, headers: {}, body: "" });
  });
});
