import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { beforeAll, describe, expect, it } from "vitest";
import { ADMIN_ENV, bearer, issueToken } from "./support/admin.ts";
import { sharedServer, suiteServer } from "./support/opened.ts";
import { expectRestError } from "./support/rest-shape.ts";

const FORM = "application/x-www-form-urlencoded";

/** A path of REST, and its methods. */
type Served = readonly [path: string, methods: readonly string[]];

const OWN_PATHS: readonly Served[] = [
  ["/api/user", ["GET", "PUT", "POST"]],
  ["/api/viewer", ["POST"]],
  ["/api/viewer/session", ["POST"]],
];

/** Those of the hosted service. */
const LEGACY_PATHS: readonly Served[] = [
  ["/api/create_user_group", ["POST"]],
  ["/api/update_user_group", ["POST"]],
  ["/api/refresh_user_group_token", ["POST"]],
  ["/api/delete_user_group", ["DELETE"]],
  ["/api/create_customer", ["POST"]],
  ["/api/update_customer", ["POST"]],
  ["/api/refresh_customer_token", ["POST"]],
  ["/api/delete_customer", ["DELETE"]],
  ["/api/generate_jwt", ["POST"]],
];

describe.each(RUNTIMES)("REST on %s", (runtime) => {
  const server = suiteServer({ runtime, env: { ...ADMIN_ENV, LEGACY_PATHS: "on" } });
  let token: string;
  beforeAll(async () => {
    ({ token } = await issueToken(server, "admin"));
  });

  describe.each([...OWN_PATHS, ...LEGACY_PATHS])("%s refuses", (path, methods) => {
    const send = (method: string, body?: string, headers: { readonly [name: string]: string } = {}) =>
      http1(server.url, path, {
        method,
        headers: { ...bearer(token), ...headers },
        ...(body !== undefined && { body }),
      });

    it("other methods", async () => {
      for (const method of ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "PROPFIND"]) {
        if (methods.includes(method)) continue;
        const answer = await send(method);
        expect(answer.headers.allow).toBe(methods.join(", "));
        if (method === "HEAD") expect(answer).toMatchObject({ status: 405, body: Buffer.alloc(0) });
        else expectRestError(answer, { status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED" });
      }
    });

    describe.each(methods)("with %s", (method) => {
      it("other content types", async () => {
        const expected = { status: 415, code: "invalid_argument", reason: "UNSUPPORTED_MEDIA_TYPE" };
        const types = ["text/plain", "application/jsonx", "application/json-patch+json", `${FORM}x`, ""];
        for (const type of path === "/api/viewer" ? types : [...types, FORM]) {
          expectRestError(await send(method, "{}", { "content-type": type }), expected);
        }
      });

      it("what is no JSON object", async () => {
        const expected = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST" };
        for (const body of ["{", "[]", '{"a":1,"a":2}']) expectRestError(await send(method, body), expected);
      });

      it("more than 1 MiB", async () => {
        const expected = { status: 413, code: "resource_exhausted", reason: "MESSAGE_TOO_LARGE" };
        expectRestError(await send(method, JSON.stringify({ padding: "x".repeat(1024 * 1024) })), expected);
      });

      it("callers without a valid API token, and tells them what to do about it", async () => {
        for (const [authorization, reason] of [
          [undefined, "API_TOKEN_MISSING"],
          ["Basic eDp5", "API_TOKEN_MALFORMED"],
          ["Token unknown-token-0123456789", "API_TOKEN_UNKNOWN"],
        ] as const) {
          const headers = authorization === undefined ? {} : { authorization };
          const answer = await http1(server.url, path, { method, headers, body: "{}" });
          expectRestError(answer, { status: 401, code: "unauthenticated", reason });
          expect(answer.headers["www-authenticate"]).toBe('Token realm="user-group-service"');
        }
      });

      it("what is behind it", async () => {
        for (const behind of ["//", "/x"]) {
          const answer = await http1(server.url, path + behind, { method, headers: bearer(token), body: "{}" });
          expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
        }
      });
    });
  });
});

describe("without LEGACY_PATHS", () => {
  const server = sharedServer();

  it("there are no such paths", async () => {
    for (const path of LEGACY_PATHS.flatMap(([one]) => [one, `${one}/`])) {
      const answer = await http1(server.url, path, {
        method: "POST",
        headers: bearer(server.tokens.customer),
        body: "{}",
      });
      expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
    }
  });
});
