import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { beforeAll, describe, expect, it } from "vitest";
import { ADMIN_ENV, bearer, issueToken } from "./support/admin.ts";
import { sharedServer, suiteServer } from "./support/opened.ts";
import { expectRestError } from "./support/rest-shape.ts";

const PATHS: readonly (readonly [path: string, ...methods: string[]])[] = [
  ["/api/user", "GET", "PUT", "POST"],
  ["/api/viewer", "POST"],
  ["/api/viewer/session", "POST"],
];
const LEGACY_PATHS: typeof PATHS = [
  ["/api/create_user_group", "POST"],
  ["/api/update_user_group", "POST"],
  ["/api/refresh_user_group_token", "POST"],
  ["/api/delete_user_group", "DELETE"],
  ["/api/create_customer", "POST"],
  ["/api/update_customer", "POST"],
  ["/api/refresh_customer_token", "POST"],
  ["/api/delete_customer", "DELETE"],
  ["/api/generate_jwt", "POST"],
];

interface Sent {
  readonly type?: string;
  readonly body?: string;
  /** If empty, the request has no `Authorization` header. */
  readonly authorization?: string;
  readonly behind?: string;
}

const invalid = "invalid_argument";
const FORM: Sent = { type: "application/x-www-form-urlencoded" };

const REFUSED: readonly (readonly [reason: string, status: number, code: string, sent: Sent])[] = [
  ...["text/plain", "application/jsonx", "application/json-patch+json", "application/x-www-form-urlencode", ""].map(
    (type) => ["UNSUPPORTED_MEDIA_TYPE", 415, invalid, { type }] as const,
  ),
  ["UNSUPPORTED_MEDIA_TYPE", 415, invalid, FORM],
  ...["{", "[]", '{"a":1,"a":2}'].map((body) => ["MALFORMED_REQUEST", 400, invalid, { body }] as const),
  ["MESSAGE_TOO_LARGE", 413, "resource_exhausted", { body: `{"padding":"${"x".repeat(1024 * 1024)}"}` }],
  ["API_TOKEN_MISSING", 401, "unauthenticated", { authorization: "" }],
  ["API_TOKEN_MALFORMED", 401, "unauthenticated", { authorization: "Basic eDp5" }],
  ["API_TOKEN_UNKNOWN", 401, "unauthenticated", { authorization: "Token unknown-token" }],
  ...["//", "/x"].map((behind) => ["PATH_NOT_FOUND", 404, "not_found", { behind }] as const),
];

describe.each(RUNTIMES)("REST on %s", (runtime) => {
  const server = suiteServer({ runtime, env: { ...ADMIN_ENV, LEGACY_PATHS: "on" } });
  let admin: { readonly authorization: string };
  beforeAll(async () => {
    admin = bearer((await issueToken(server, "admin")).token);
  });

  describe.each([...PATHS, ...LEGACY_PATHS])("%s rejects", (path, ...methods) => {
    it("unsupported methods", async () => {
      for (const method of ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "PROPFIND"]) {
        if (methods.includes(method)) continue;
        const answer = await http1(server.url, path, { method, headers: admin });
        expect(answer.headers.allow).toBe(methods.join(", "));
        if (method === "HEAD") expect(answer).toMatchObject({ status: 405, body: Buffer.alloc(0) });
        else expectRestError(answer, { status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED" });
      }
    });

    // Only the viewer path accepts forms.
    const refused = REFUSED.filter(([, , , sent]) => sent !== FORM || path !== "/api/viewer");
    it.each(refused)("request %$ with the reason %s", async (reason, status, code, sent) => {
      const { type, body = "{}", authorization = admin.authorization, behind = "" } = sent;
      const headers = {
        ...(type !== undefined && { "content-type": type }),
        ...(authorization !== "" && { authorization }),
      };
      for (const method of methods) {
        const answer = await http1(server.url, path + behind, { method, headers, body });
        expectRestError(answer, { status, code, reason });
        const challenge = status === 401 ? 'Token realm="user-group-service"' : undefined;
        expect(answer.headers["www-authenticate"]).toBe(challenge);
      }
    });
  });
});

describe("without LEGACY_PATHS", () => {
  const server = sharedServer();

  it("the paths of the hosted service do not exist", async () => {
    for (const path of LEGACY_PATHS.flatMap(([one]) => [one, `${one}/`])) {
      const headers = bearer(server.tokens.customer);
      const answer = await http1(server.url, path, { method: "POST", headers, body: "{}" });
      expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
    }
  });
});
