import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../src/domain/user-group.ts";
import { http1 } from "./support/http.ts";
import { newId } from "./support/matrix.ts";
import { suiteServer } from "./support/opened.ts";
import { restCalls } from "./support/rest-calls.ts";
import { expectRestError } from "./support/rest-shape.ts";
import { RUNTIMES } from "./support/server.ts";

describe.each(RUNTIMES)("REST on %s refuses", (runtime) => {
  const server = suiteServer({ runtime });
  const { call, ok } = restCalls(server);

  it.each(["DELETE", "PATCH", "HEAD", "OPTIONS", "PROPFIND"])("the method %s", async (method) => {
    const answer = await call(method, undefined);
    expect(answer.headers.allow).toBe("GET, PUT, POST");
    if (method === "HEAD") expect(answer).toMatchObject({ status: 405, body: Buffer.alloc(0) });
    else expectRestError(answer, { status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED" });
  });

  it.each(["/", "/api", "/api/users", "/api/user//", "/api/user/x", "/API/user", "//api/user", "/%61pi/user", "*"])(
    "the path %s",
    async (target) => {
      const answer = await call("GET", { user_group_id: "a" }, { target });
      expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
    },
  );

  it.each(["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json-patch+json", ""])(
    "the content type %s",
    async (type) => {
      const expected = { status: 415, code: "invalid_argument", reason: "UNSUPPORTED_MEDIA_TYPE" };
      expectRestError(await call("PUT", { user_group_id: "a" }, { headers: { "content-type": type } }), expected);
    },
  );

  it("a content encoding that is unknown or not what the body has", async () => {
    const send = (encoding: string) =>
      call("PUT", { user_group_id: "a" }, { headers: { "content-encoding": encoding } });
    const unsupported = { status: 415, code: "invalid_argument", reason: "UNSUPPORTED_MEDIA_TYPE" };
    expectRestError(await send("zip"), unsupported);
    const malformed = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST" };
    expectRestError(await send("gzip"), malformed);
    expectRestError(await send("br"), malformed);
  });

  it("a body of more than 1 MiB, compressed or not", async () => {
    const expected = { status: 413, code: "resource_exhausted", reason: "MESSAGE_TOO_LARGE" };
    const text = JSON.stringify({ user_group_id: "a", padding: "x".repeat(1024 * 1024) });
    expectRestError(await call("PUT", text), expected);
    const headers = { authorization: `Token ${server.tokens.customer}`, "content-encoding": "gzip" };
    expectRestError(await http1(server.url, "/api/user", { method: "PUT", headers, body: gzipSync(text) }), expected);
    const fits = JSON.stringify({ user_group_id: newId(), padding: "" });
    const full = fits.replace('""', `"${"x".repeat(1024 * 1024 - Buffer.byteLength(fits))}"`);
    expect((await ok(call("GET", full))).success).toBe(1);
  });

  it("a call without a valid API token, with what to do about it", async () => {
    for (const [authorization, reason] of [
      [undefined, "API_TOKEN_MISSING"],
      ["Basic eDp5", "API_TOKEN_MALFORMED"],
      ["Token unknown-token", "API_TOKEN_UNKNOWN"],
    ]) {
      const headers = { "content-type": "application/json", ...(authorization && { authorization }) };
      for (const method of ["GET", "PUT", "POST"]) {
        const answer = await http1(server.url, "/api/user", { method, headers, body: '{"user_group_id":"a"}' });
        expectRestError(answer, { status: 401, code: "unauthenticated", reason: String(reason) });
        expect(answer.headers["www-authenticate"]).toBe('Token realm="user-group-service"');
      }
    }
  });

  it.each([
    ["GET", {}, "VALIDATION_FAILED", ["user_group_id"]],
    ["GET", { user_group_id: 5 }, "MALFORMED_REQUEST", ["user_group_id"]],
    ["GET", { user_group_id: "a", mapping: { a: 1 } }, "MALFORMED_REQUEST", ["mapping"]],
    ["GET", { user_group_id: "a", mapping: ["a"] }, "MALFORMED_REQUEST", ["mapping"]],
    ["PUT", { user_group_id: "a", properties: "x" }, "MALFORMED_REQUEST", ["properties"]],
    ["PUT", { user_group_id: "a", properties: [] }, "MALFORMED_REQUEST", ["properties"]],
    ["PUT", { user_group_id: "a", name: {} }, "MALFORMED_REQUEST", ["name"]],
    ["PUT", { name: "a" }, "VALIDATION_FAILED", ["user_group_id"]],
    ["POST", {}, "VALIDATION_FAILED", ["group"]],
    ["POST", { current_token: null }, "VALIDATION_FAILED", ["group"]],
    ["POST", { current_token: "a", user_group_id: "b" }, "MALFORMED_REQUEST", ["group"]],
    ["POST", { user_group_id: "a", previous_token_ttl: 300 }, "MALFORMED_REQUEST", ["previous_token_ttl"]],
    ["POST", { user_group_id: "a", previous_token_ttl: "5 m" }, "MALFORMED_REQUEST", ["previous_token_ttl"]],
    ["POST", { user_group_id: "a", previous_token_ttl: "300s of grace" }, "MALFORMED_REQUEST", ["previous_token_ttl"]],
    ["POST", { user_group_id: "a", previous_token_ttl: "300s\n" }, "MALFORMED_REQUEST", ["previous_token_ttl"]],
    ["POST", { user_group_id: "a", previous_token_ttl: "-1s" }, "VALIDATION_FAILED", ["previous_token_ttl"]],
  ] as const)("%s with %j", async (method, body, reason, fields) => {
    const answer = await call(method, body as unknown as JsonObject);
    expectRestError(answer, { status: 400, code: "invalid_argument", reason, fields });
  });

  it("groups and tokens that are not there", async () => {
    const group = await call("PUT", { user_group_id: newId(), name: "a" });
    expectRestError(group, { status: 404, code: "not_found", reason: "USER_GROUP_NOT_FOUND" });
    const token = await call("POST", { current_token: "ugt_x" });
    expectRestError(token, { status: 404, code: "not_found", reason: "TOKEN_NOT_FOUND" });
  });
});
