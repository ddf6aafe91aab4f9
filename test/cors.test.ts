import type { IncomingHttpHeaders } from "node:http";
import { create, toBinary } from "@bufbuild/protobuf";
import { encodeEnvelope } from "@connectrpc/connect/protocol";
import { http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { sharedServer, suiteServer } from "./support/opened.ts";
import type { TestServer } from "./support/server.ts";

const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";
const WATCH_PATH = "/grpc.health.v1.Health/Watch";
const REFLECTION_PATH = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/** Paths of unknown RPCs. The error responses also need CORS headers, so that a page can read the error. */
const UNKNOWN_PATHS = ["/usergroup.v1.UserGroupService/Nothing", "/usergroup.v9.Nothing/Nothing"];
const LISTED = "https://app.example.com";
const LISTED_TOO = "http://127.0.0.1:3000";

const ALLOWED_METHODS = ["POST"];
const ALLOWED_HEADERS = [
  "content-type",
  "connect-protocol-version",
  "connect-timeout-ms",
  "connect-content-encoding",
  "connect-accept-encoding",
  "content-encoding",
  "accept-encoding",
  "grpc-message-type",
  "x-grpc-web",
  "x-user-agent",
  "grpc-timeout",
  "authorization",
  "explo-authorization",
  "x-request-id",
  "traceparent",
  "tracestate",
];
const EXPOSED_HEADERS = [
  "grpc-status",
  "grpc-message",
  "grpc-status-details-bin",
  "content-encoding",
  "connect-content-encoding",
  "x-request-id",
  "retry-after",
  "ratelimit",
  "ratelimit-policy",
];

/** Origins that are not in `CORS_ORIGINS`. Most of them are similar to an origin in `CORS_ORIGINS`. */
const UNLISTED = [
  "https://elsewhere.example.com",
  "https://app.example.com.evil.example",
  "http://app.example.com",
  "https://app.example.com:8443",
  "https://APP.example.com",
  "null",
];

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly head: string;
}

interface Call {
  readonly method?: string;
  readonly path: string;
  readonly headers?: { readonly [name: string]: string };
  readonly body?: Uint8Array<ArrayBuffer> | string;
}

const group = create(GetUserGroupRequestSchema, { userGroupId: "a" });
const enveloped = encodeEnvelope(0, toBinary(GetUserGroupRequestSchema, group));
const empty = encodeEnvelope(0, new Uint8Array(0));
const emptyJson = encodeEnvelope(0, new TextEncoder().encode("{}"));

/** One call for each part of the service that creates responses. `TOKEN` stands for an API token. */
const CALLS: readonly (Call & { readonly name: string; readonly status: number; readonly trailer?: string })[] = [
  { name: "Connect, JSON", status: 200, ...unary("application/json", '{"userGroupId":"a"}') },
  { name: "Connect, binary", status: 200, ...unary("application/proto", toBinary(GetUserGroupRequestSchema, group)) },
  { name: "gRPC-Web", status: 200, ...unary("application/grpc-web+proto", enveloped) },
  {
    name: "gRPC-Web, text",
    status: 200,
    ...unary("application/grpc-web-text+proto", Buffer.from(enveloped).toString("base64")),
  },
  { name: "Connect, refused", status: 401, ...unary("application/json", "{}", {}) },
  { name: "Connect, malformed", status: 400, ...unary("application/json", "{") },
  { name: "Connect, too large", status: 429, ...unary("application/json", Buffer.alloc(1024 * 1024 + 1, 0x20)) },
  {
    name: "gRPC-Web, refused",
    status: 200,
    trailer: "grpc-status: 16",
    ...unary("application/grpc-web+proto", enveloped, {}),
  },
  { name: "an unsupported content type", status: 415, ...unary("text/plain", "{}") },
  { name: "an unsupported HTTP method", status: 405, method: "PUT", path: GET_PATH },
  { name: "a stream over Connect", status: 200, ...stream("application/connect+json", emptyJson) },
  { name: "a stream over gRPC-Web", status: 200, ...stream("application/grpc-web+proto", empty) },
  { name: "a stream with an unsupported content type", status: 415, ...stream("text/plain", "") },
  {
    name: "an unknown RPC over Connect",
    status: 404,
    ...unary("application/json", "{}"),
    path: UNKNOWN_PATHS[0] ?? "",
  },
  {
    name: "an unknown RPC over gRPC-Web",
    status: 200,
    trailer: "grpc-status: 12",
    ...unary("application/grpc-web+proto", empty),
    path: UNKNOWN_PATHS[1] ?? "",
  },
];

function unary(
  contentType: string,
  body: Uint8Array<ArrayBuffer> | string,
  headers: Call["headers"] = { authorization: "TOKEN" },
): Call {
  return { method: "POST", path: GET_PATH, headers: { "content-type": contentType, ...headers }, body };
}

function stream(contentType: string, body: Uint8Array<ArrayBuffer> | string): Call {
  return { method: "POST", path: WATCH_PATH, headers: { "content-type": contentType }, body };
}

function preflight(path: string, method = "POST") {
  return {
    method: "OPTIONS",
    path,
    headers: {
      "access-control-request-method": method,
      "access-control-request-headers": "authorization,connect-protocol-version,content-type,x-request-id",
    },
  };
}

/** Makes a call from an origin. Reads only the first chunk of the body, because a stream does not end. */
async function ask(server: TestServer, { path, method, headers, body }: Call, origin?: string): Promise<Answer> {
  const sent = new Headers({ ...headers, ...(origin !== undefined && { origin }) });
  if (sent.get("authorization") === "TOKEN") sent.set("authorization", `Token ${server.tokens.customer}`);
  const answer = await fetch(server.url + path, { method: method ?? "GET", headers: sent, body: body ?? null });
  const reader = answer.body?.getReader();
  const piece = await reader?.read();
  await reader?.cancel();
  const head = Buffer.from(piece?.value ?? []).toString("latin1");
  return { status: answer.status, headers: Object.fromEntries(answer.headers), head };
}

function corsOf({ headers }: Pick<Answer, "headers">) {
  const list = (name: string) => (headers[name] as string | undefined)?.split(",").map((item) => item.trim());
  return {
    origin: headers["access-control-allow-origin"],
    methods: list("access-control-allow-methods"),
    headers: list("access-control-allow-headers")?.map((name) => name.toLowerCase()),
    exposed: list("access-control-expose-headers")?.map((name) => name.toLowerCase()),
    others: Object.keys(headers).filter(
      (name) =>
        /^access-control-/.test(name) && !/-(allow-(origin|methods|headers)|expose-headers|max-age)$/.test(name),
    ),
    maxAge: headers["access-control-max-age"],
  };
}

const NOTHING = {
  origin: undefined,
  methods: undefined,
  headers: undefined,
  exposed: undefined,
  others: [],
  maxAge: undefined,
};
const READABLE_BY = (origin: string) => ({ ...NOTHING, origin, exposed: EXPOSED_HEADERS });
const MAY_ASK = (origin: string) => ({
  ...READABLE_BY(origin),
  methods: ALLOWED_METHODS,
  headers: ALLOWED_HEADERS,
  maxAge: "7200",
});

function variesByOrigin({ headers }: Answer): boolean {
  return (headers.vary ?? "").split(",").some((name) => name.trim().toLowerCase() === "origin");
}

describe.each(RUNTIMES)("CORS on %s", (runtime) => {
  const servers = {
    none: sharedServer({ runtime }),
    list: suiteServer({ runtime, env: { CORS_ORIGINS: `${LISTED}, ${LISTED_TOO}` } }),
    any: suiteServer({ runtime, env: { CORS_ORIGINS: "*" } }),
  };

  describe.each(CALLS)("the call `$name`", (call) => {
    it.each([LISTED, LISTED_TOO])("the response can be read by the listed origin %s", async (origin) => {
      const answer = await ask(servers.list, call, origin);
      expect(answer.status).toBe(call.status);
      if (call.trailer !== undefined) expect(answer.head).toContain(call.trailer);
      expect(corsOf(answer)).toEqual(READABLE_BY(origin));
      expect(variesByOrigin(answer)).toBe(true);
    });

    it.each(UNLISTED)("the response cannot be read by the unlisted origin %s", async (origin) => {
      const answer = await ask(servers.list, call, origin);
      expect(answer.status).toBe(call.status);
      expect(corsOf(answer)).toEqual(NOTHING);
      expect(variesByOrigin(answer)).toBe(true);
    });

    it("the response has no CORS headers if the request has no origin", async () => {
      const answer = await ask(servers.list, call, undefined);
      expect(answer.status).toBe(call.status);
      expect(corsOf(answer)).toEqual(NOTHING);
    });

    it("the response can be read by every origin if CORS_ORIGINS is *", async () => {
      expect(corsOf(await ask(servers.any, call, "https://elsewhere.example.com"))).toEqual(READABLE_BY("*"));
    });

    it("the response cannot be read by any origin by default", async () => {
      expect(corsOf(await ask(servers.none, call, LISTED))).toEqual(NOTHING);
    });
  });

  describe.each([GET_PATH, WATCH_PATH, REFLECTION_PATH, ...UNKNOWN_PATHS])("the preflight response for %s", (path) => {
    it.each([LISTED, LISTED_TOO])("allows the listed origin %s", async (origin) => {
      const answer = await ask(servers.list, preflight(path), origin);
      expect(answer.status).toBe(204);
      expect(corsOf(answer)).toEqual(MAY_ASK(origin));
      expect(variesByOrigin(answer)).toBe(true);
    });

    it.each(UNLISTED)("does not allow the unlisted origin %s", async (origin) => {
      const answer = await ask(servers.list, preflight(path), origin);
      expect(answer.status).toBe(204);
      expect(corsOf(answer)).toEqual(NOTHING);
      expect(variesByOrigin(answer)).toBe(true);
    });

    it("allows every origin if CORS_ORIGINS is *", async () => {
      expect(corsOf(await ask(servers.any, preflight(path), "null"))).toEqual(MAY_ASK("*"));
    });

    it("allows no origin by default", async () => {
      const answer = await ask(servers.none, preflight(path), LISTED);
      expect(answer.status).toBe(204);
      expect(corsOf(answer)).toEqual(NOTHING);
    });

    it("the preflight response is the same over HTTP/2 as over HTTP/1.1", async () => {
      const askHttp2 = (origin: string) => {
        const { method, headers } = preflight(path);
        return http2(servers.list.url, path, { method, headers: { ...headers, origin } });
      };
      const allowed = await askHttp2(LISTED);
      expect([allowed.status, corsOf(allowed)]).toEqual([204, MAY_ASK(LISTED)]);
      const refused = await askHttp2("https://elsewhere.example.com");
      expect([refused.status, corsOf(refused)]).toEqual([204, NOTHING]);
    });
  });

  it.each([["/api/user"], ["/api/viewer"], ["/metrics"], ["/healthz"], ["/nowhere"]])(
    "blocks requests to %s from pages of other origins",
    async (path) => {
      for (const method of ["GET", "PUT", "POST"]) {
        const answer = await ask(servers.any, preflight(path, method), LISTED);
        expect(answer.status).toBeGreaterThanOrEqual(404);
        expect(corsOf(answer)).toEqual(NOTHING);
      }
      expect(corsOf(await ask(servers.any, { path }, LISTED))).toEqual(NOTHING);
    },
  );
});
