import { type HttpAnswer, http1, http2 } from "@user-group-service/testing/http";
import { expect, it } from "vitest";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import type { JsonObject } from "../src/domain/user-group.ts";
import { bearer } from "./support/admin.ts";
import { describeServers, newId } from "./support/matrix.ts";
import { metricOf } from "./support/operations.ts";
import { restCalls, type Success } from "./support/rest-calls.ts";
import { expectRestError } from "./support/rest-shape.ts";
import { grpcClients } from "./support/rpc.ts";

const TARGET = "/api/viewer";

describeServers((server) => {
  const { call, created, ok } = restCalls(server);
  const introspect = (body: JsonObject | string | undefined, headers = bearer(server.tokens.customer)) =>
    call("POST", body, { target: TARGET, headers });

  async function resolved(token: string, { apiToken, environment }: { apiToken: string; environment: string }) {
    const viewer = await grpcClients(server, apiToken).viewers.resolveViewer({ token });
    return {
      active: true,
      sub: viewer.providedId,
      environment,
      team_id: Number(viewer.teamId),
      name: viewer.name,
      mapping: viewer.mapping,
      properties: viewer.properties ?? null,
      ...(viewer.tokenExpireTime && { exp: Number(viewer.tokenExpireTime.seconds) }),
    };
  }

  function expectInactive(answer: HttpAnswer): void {
    expect([answer.status, answer.body.toString()]).toEqual([200, '{"active":false}\n']);
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(answer.headers["x-request-id"]).toMatch(/./);
  }

  it.each([
    ["only an id", {}],
    ["a name, a mapping and properties", { name: "É", mapping: { schema: "source" }, properties: { a: [1, null] } }],
    ["empty properties", { properties: {} }],
    [
      "keys that every JavaScript object inherits",
      { mapping: { constructor: "a" }, properties: { toString: { valueOf: 1 } } },
    ],
    ["compressible properties", { properties: { text: "again and ".repeat(500) } }],
  ] satisfies [string, JsonObject][])(
    "POST /api/viewer returns the same viewer as ResolveViewer for a group with %s",
    async (_title, fields) => {
      const { id, user_group } = await created(fields);
      const answer = await introspect({ token: user_group.token });
      expect(answer.status).toBe(200);
      expect(answer.headers["content-type"]).toBe("application/json");
      expect(answer.headers["cache-control"]).toBe("no-store");
      const reported = answer.json<JsonObject>();
      const environment = `${server.environment}/Customer`;
      expect(reported).toEqual(await resolved(user_group.token, { apiToken: server.tokens.customer, environment }));
      expect(reported).toMatchObject({ active: true, sub: id, ...fields });
      expect(reported).not.toHaveProperty("exp");
      expect(answer.body.toString()).not.toContain(user_group.token);
    },
  );

  it("POST /api/viewer returns the environment as the settings name it, and resolves no token of another environment", async () => {
    const { customer, testing, untagged } = server.tokens;
    const environments = [
      [customer, `${server.environment}/Customer`],
      [testing, `${server.environment}/Testing`],
      [untagged, server.environment],
    ] as const;
    for (const [apiToken, environment] of environments) {
      const { user_group } = await ok(call("GET", { user_group_id: newId() }, { headers: bearer(apiToken) }));
      const reported = (await introspect({ token: user_group.token }, bearer(apiToken))).json<JsonObject>();
      expect(reported).toMatchObject({ active: true, environment });
      expect(reported).toEqual(await resolved(user_group.token, { apiToken, environment }));
      for (const [other] of environments.filter(([token]) => token !== apiToken)) {
        expectInactive(await introspect({ token: user_group.token }, bearer(other)));
      }
    }
  });

  it("POST /api/viewer returns the expiry time of a token in its grace period, and only `active: false` for a revoked token", async () => {
    const { id, user_group } = await created();
    const rotate = (body: JsonObject) => ok(call("POST", { user_group_id: id, ...body }));
    const second = await rotate({ previous_token_ttl: "600s" });
    const reported = (await introspect({ token: user_group.token })).json<{ sub: string; exp: number }>();
    expect(reported).toMatchObject({ active: true, sub: id });
    const expected = { apiToken: server.tokens.customer, environment: `${server.environment}/Customer` };
    expect(reported).toEqual(await resolved(user_group.token, expected));
    expect(reported.exp).toSatisfy(Number.isSafeInteger);
    const left = reported.exp - Date.now() / 1000;
    expect(left).toBeGreaterThan(300);
    expect(left).toBeLessThanOrEqual(601);
    expect((await introspect({ token: second.user_group.token })).json()).not.toHaveProperty("exp");
    await rotate({});
    for (const { token } of [user_group, second.user_group]) expectInactive(await introspect({ token }));
  });

  it.each([
    ["an unknown token", newUserGroupToken()],
    ["a malformed token", "of another system"],
    ["an API token", newApiToken()],
    ["non-ASCII text", "\u{1f642}"],
    ["a token of maximum length", "x".repeat(8192)],
  ])("POST /api/viewer returns only `active: false` for %s", async (_title, token) => {
    expectInactive(await introspect({ token }));
  });

  it("POST /api/viewer accepts a trailing slash, HTTP/2 and a missing content type, and ignores unknown fields", async () => {
    const { id, user_group } = await created();
    const body = JSON.stringify({ token: user_group.token, token_type_hint: "access_token", x: { y: 1 } });
    const headers = bearer(server.tokens.customer);
    for (const send of [http1, http2]) {
      for (const target of [TARGET, `${TARGET}/`, `${TARGET}?token=${newUserGroupToken()}`]) {
        const answer = await send(server.url, target, { method: "POST", headers, body });
        expect(answer.json()).toMatchObject({ active: true, sub: id });
      }
    }
  });

  it("POST /api/viewer accepts a form, as RFC 7662 specifies", async () => {
    const { id, user_group } = await created();
    for (const type of ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=UTF-8"]) {
      const headers = { ...bearer(server.tokens.customer), "content-type": type };
      const encoded = `%75gt_${user_group.token.slice(4)}`;
      for (const form of [
        `token=${user_group.token}&token_type_hint=access_token`,
        `token_type_hint=a&token_type_hint=b&token=${encoded}`,
      ]) {
        expect((await introspect(form, headers)).json()).toMatchObject({ active: true, sub: id });
      }
      expectInactive(await introspect(`token=${newUserGroupToken()}`, headers));
      const missing = { status: 400, code: "invalid_argument", reason: "VALIDATION_FAILED", fields: ["token"] };
      for (const form of ["", "token=", "token", "token_type_hint=x", `Token=${user_group.token}`, "{}"]) {
        expectRestError(await introspect(form, headers), missing);
      }
      const malformed = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST" };
      const twice = await introspect(`token=${user_group.token}&token=${user_group.token}`, headers);
      expectRestError(twice, { ...malformed, fields: ["token"] });
      expect(twice.body.toString()).not.toContain(user_group.token);
      for (const body of ["token=%", "token=%ff", Buffer.of(0x74, 0xff)]) {
        expectRestError(await http1(server.url, TARGET, { method: "POST", headers, body }), malformed);
      }
    }
  });

  it("POST /api/viewer rejects a request without a token", async () => {
    const bodies: (JsonObject | undefined)[] = [
      undefined,
      {},
      { token: null },
      { token: "" },
      { token: "x".repeat(8193) },
    ];
    for (const body of bodies) {
      const expected = { status: 400, code: "invalid_argument", reason: "VALIDATION_FAILED", fields: ["token"] };
      expectRestError(await introspect(body), expected);
    }
    // The service ignores a token in the query string. If it accepted such tokens, logs of URLs would contain them.
    const inQuery = await call("POST", undefined, { target: `${TARGET}?token=${newUserGroupToken()}` });
    expectRestError(inQuery, { status: 400, code: "invalid_argument", reason: "VALIDATION_FAILED", fields: ["token"] });
  });

  it("the metrics count POST /api/viewer as a call of ResolveViewer over REST", async () => {
    const labels = { grpc_method: "ResolveViewer", protocol: "rest", grpc_code: "OK" };
    const count = async () =>
      (await metricOf(server, "grpc_server_handled_total", labels)) ?? expect.fail("no such series");
    const { user_group }: Success = await created();
    const before = await count();
    await introspect({ token: user_group.token });
    // Suites of other files call this server concurrently, so the count may be higher.
    expect(await count()).toBeGreaterThan(before);
  });
});
