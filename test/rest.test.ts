import { gunzipSync, gzipSync } from "node:zlib";
import { http1, http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../src/domain/user-group.ts";
import { newId } from "./support/matrix.ts";
import { sharedServer } from "./support/opened.ts";
import { restCalls, type Success } from "./support/rest-calls.ts";
import { expectRestError } from "./support/rest-shape.ts";

describe.each(RUNTIMES)("REST on %s", (runtime) => {
  const server = sharedServer({ runtime });
  const { call, ok, created } = restCalls(server);

  describe("answers", () => {
    it("GET with exactly the documented fields", async () => {
      const id = newId();
      const mapping = { schema: "source" };
      const answer = await call("GET", { user_group_id: id, name: "Acme", mapping, properties: { a: 1 } });
      expect(answer.status).toBe(200);
      expect(answer.headers["content-type"]).toBe("application/json");
      expect(answer.headers["cache-control"]).toBe("no-store");
      expect(answer.headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
      const body = answer.json<Success>();
      const { token, team_id } = body.user_group;
      expect(body).toEqual({
        success: 1,
        new_user_group: true,
        user_group: { team_id, token, name: "Acme", provided_id: id, properties: { a: 1 } },
      });
      expect(team_id).toSatisfy(Number.isSafeInteger);
      const again = await ok(call("GET", { user_group_id: id }));
      expect(again).toEqual({ ...body, new_user_group: false });
    });

    it("PUT with the environment tag, and POST with the environment tag but without properties", async () => {
      for (const [tag, apiToken] of [
        ["Customer", server.tokens.customer],
        ["Testing", server.tokens.testing],
        [null, server.tokens.untagged],
      ]) {
        const headers = { authorization: `Token ${apiToken}` };
        const user_group_id = newId();
        const { user_group } = await ok(call("GET", { user_group_id }, { headers }));
        const { team_id, token } = user_group;
        expect(user_group).toEqual({
          team_id,
          token,
          name: user_group_id,
          provided_id: user_group_id,
          properties: null,
        });
        const put = await call("PUT", { user_group_id, name: "N" }, { headers });
        expect(put.headers["cache-control"]).toBe("no-store");
        const common = { team_id, name: "N", provided_id: user_group_id, api_environment_tag: tag };
        expect(put.json()).toEqual({ success: 1, user_group: { ...common, token, properties: null } });
        const post = await call("POST", { current_token: token }, { headers });
        expect(post.headers["cache-control"]).toBe("no-store");
        const rotated = post.json<Success>();
        expect(rotated).toEqual({ success: 1, user_group: { ...common, token: rotated.user_group.token } });
        expect(rotated.user_group.token).not.toBe(token);
      }
    });

    it("POST by id with a grace period, and its retry with the same Idempotency-Key", async () => {
      const { id, user_group } = await created();
      const headers = { "idempotency-key": `key-${user_group.token}` };
      const body = { user_group_id: id, previous_token_ttl: "300s" };
      const first = await ok(call("POST", body, { headers }));
      expect(await ok(call("POST", body, { headers }))).toEqual(first);
      const inGrace = await call(
        "POST",
        { token: user_group.token },
        { target: "/usergroup.v1.ViewerService/ResolveViewer" },
      );
      expect(inGrace.json()).toMatchObject({ providedId: id, tokenExpireTime: expect.any(String) });
      const reused = { status: 400, code: "invalid_argument", reason: "REQUEST_ID_REUSED", fields: ["request_id"] };
      expectRestError(await call("POST", { user_group_id: id }, { headers }), reused);
    });

    it("requests with a trailing slash, requests over HTTP/2, and requests without a content type", async () => {
      const { id, user_group } = await created();
      const body = { user_group_id: id };
      expect((await ok(call("GET", body, { target: "/api/user/" }))).user_group).toEqual(user_group);
      expect((await ok(call("PUT", body, { target: "/api/user/?x=1" }))).user_group.token).toBe(user_group.token);
      const headers = { authorization: `Token ${server.tokens.customer}` };
      for (const send of [http1, http2]) {
        const answer = await send(server.url, "/api/user", { headers, body: JSON.stringify(body) });
        expect(answer.json<Success>().user_group).toEqual(user_group);
      }
      for (const type of ["application/json; charset=utf-8", "Application/JSON"]) {
        expect((await ok(call("GET", body, { headers: { "content-type": type } }))).user_group).toEqual(user_group);
      }
    });

    it("requests that are compressed with gzip, and compresses the responses", async () => {
      const properties = { text: "again and ".repeat(500) };
      const body = gzipSync(JSON.stringify({ user_group_id: newId(), properties }));
      const headers = {
        authorization: `Token ${server.tokens.customer}`,
        "content-encoding": "gzip",
        "accept-encoding": "gzip",
      };
      const answer = await http1(server.url, "/api/user", { headers, body });
      expect(answer.headers["content-encoding"]).toBe("gzip");
      expect(answer.headers["vary"]).toContain("accept-encoding");
      expect(JSON.parse(gunzipSync(answer.body).toString())).toMatchObject({ success: 1, user_group: { properties } });
    });
  });

  describe("GET", () => {
    it("returns the name and properties of the request for an existing group, and changes nothing", async () => {
      const { id, user_group } = await created({ name: "Kept", properties: { kept: true } });
      const echoed = await ok(call("GET", { user_group_id: id, name: "Other", properties: {} }));
      expect(echoed.user_group).toEqual({ ...user_group, name: "Other", properties: {} });
      const partly = await ok(call("GET", { user_group_id: id, name: "" }));
      expect(partly.user_group).toEqual({ ...user_group, name: "" });
      const nothing = await ok(call("GET", { user_group_id: id, name: null, properties: null }));
      expect(nothing.user_group).toEqual(user_group);
    });

    it("reads the fields of the request from the query string and the body", async () => {
      const id = newId();
      const query = new URLSearchParams({
        user_group_id: id,
        name: "é & +",
        mapping: '{"a":"b"}',
        properties: '{"n":[1]}',
      });
      const target = `/api/user?${query}`;
      const first = await ok(call("GET", undefined, { target }));
      expect(first).toMatchObject({
        new_user_group: true,
        user_group: { name: "é & +", provided_id: id, properties: { n: [1] } },
      });
      const mixed = await ok(
        call(
          "GET",
          { user_group_id: null, name: "Body", properties: { n: [1] } },
          {
            target: `/api/user?user_group_id=${encodeURIComponent(id)}&name=Body&properties=%7B%22n%22:[1]%7D&extra=1&other[a]=b`,
          },
        ),
      );
      expect(mixed).toMatchObject({ new_user_group: false, user_group: { name: "Body", provided_id: id } });
      const token = first.user_group.token;
      const viewer = await call("POST", { token }, { target: "/usergroup.v1.ViewerService/ResolveViewer" });
      expect(viewer.json()).toMatchObject({ mapping: { a: "b" } });
    });

    it.each([
      ["user_group_id=a&user_group_id=b", ["user_group_id"]],
      ["user_group_id=a&mapping=x", ["mapping"]],
      ["user_group_id=a&mapping=%5B%5D", ["mapping"]],
      ["user_group_id=a&mapping=%7B%22a%22%3A1%7D", ["mapping"]],
      ["user_group_id=a&properties=1", ["properties"]],
      ["user_group_id=a&properties=%7B%22a%22%3A1%2C%22a%22%3A2%7D", ["properties"]],
      ["user_group_id=%FF", []],
      ["user_group_id=a%", []],
      ["user_group_id=a&properties[plan]=y", ["properties"]],
      ["user_group_id=a&properties%5Bplan%5D=y", ["properties"]],
      ["user_group_id=a&mapping.a=b", ["mapping"]],
      ["user_group_id[]=a", ["user_group_id"]],
    ])("rejects the query string %s", async (query, fields) => {
      const expected = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST", fields };
      expectRestError(await call("GET", undefined, { target: `/api/user?${query}` }), expected);
    });

    it.each([
      ["user_group_id", "other"],
      ["name", ""],
      ["mapping", { a: "c" }],
      ["properties", { plan: "x", more: 1 }],
    ])(
      "rejects a request if the field %s has different values in the query string and the body",
      async (field, value) => {
        const query = { user_group_id: newId(), name: "N", mapping: '{"a":"b"}', properties: '{"plan":"x"}' };
        const expected = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST", fields: [field] };
        const target = `/api/user?${new URLSearchParams(query)}`;
        expectRestError(await call("GET", { [field]: value }, { target }), expected);
        expect((await call("PUT", { user_group_id: query.user_group_id })).status).toBe(404);
      },
    );
  });

  describe("PUT", () => {
    it("sets the fields in the body, keeps absent fields, and clears fields that are null", async () => {
      const { id, user_group } = await created({ name: "N", properties: { a: 1 }, mapping: { s: "d" } });
      const put = (fields: JsonObject) => ok(call("PUT", { user_group_id: id, ...fields }));
      expect((await put({ name: "M" })).user_group).toMatchObject({ name: "M", properties: { a: 1 } });
      expect((await put({ properties: null })).user_group).toMatchObject({ name: "M", properties: null });
      expect((await put({ properties: {}, unknown: { x: 1 } })).user_group).toMatchObject({
        name: "M",
        properties: {},
      });
      expect((await put({ name: null, mapping: null })).user_group).toMatchObject({ name: "", properties: {} });
      const { token } = user_group;
      const viewer = await call("POST", { token }, { target: "/usergroup.v1.ViewerService/ResolveViewer" });
      expect(viewer.json()).not.toHaveProperty("mapping");
    });

    const MISMATCH = { status: 412, code: "aborted", reason: "ETAG_MISMATCH" };
    const MALFORMED = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST" };
    it.each([
      ...["*", "ETAG", "\tETAG "].map((condition) => [condition, undefined] as const),
      ...["BEFORE", "W/ETAG", '"x"', '""', 'W/""'].map((condition) => [condition, MISMATCH] as const),
      ...["x", '"', "ETAG, BEFORE", "*, ETAG", 'ETAG "x"', "W/", '"a"b"', "", ","].map(
        (condition) => [condition, MALFORMED] as const,
      ),
    ])(
      "compares If-Match: %s with the etag of a group (ETAG: the current etag, BEFORE: the previous etag)",
      async (condition, refusal) => {
        const { id } = await created();
        const put = (ifMatch: string, name: string) =>
          call("PUT", { user_group_id: id, name }, { headers: { "if-match": ifMatch } });
        const before = String((await put("*", "A")).headers.etag);
        const etag = String((await put(before, "B")).headers.etag);
        for (const tag of [before, etag]) expect(tag).toMatch(/^"[\x21\x23-\x7e]+"$/);
        expect(etag).not.toBe(before);
        const answer = await put(condition.replace("ETAG", etag).replace("BEFORE", before), "C");
        if (refusal) expectRestError(answer, refusal);
        else expect(answer.json()).toMatchObject({ success: 1, user_group: { name: "C" } });
      },
    );

    it("does not create a missing group for If-Match: *", async () => {
      const missing = await call("PUT", { user_group_id: newId() }, { headers: { "if-match": "*" } });
      expectRestError(missing, { status: 404, code: "not_found", reason: "USER_GROUP_NOT_FOUND" });
    });
  });

  describe("refuses", () => {
    it.each(["/", "/api", "/api/users", "/api/user//", "/api/user/x", "/API/user", "//api/user", "/%61pi/user", "*"])(
      "the path %s",
      async (target) => {
        const answer = await call("GET", { user_group_id: "a" }, { target });
        expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
      },
    );

    it("a body whose content encoding is unsupported, or does not match the body", async () => {
      const send = (encoding: string) =>
        call("PUT", { user_group_id: "a" }, { headers: { "content-encoding": encoding } });
      const unsupported = { status: 415, code: "invalid_argument", reason: "UNSUPPORTED_MEDIA_TYPE" };
      expectRestError(await send("zip"), unsupported);
      const malformed = { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST" };
      expectRestError(await send("gzip"), malformed);
      expectRestError(await send("br"), malformed);
    });

    it("a body of more than 1 MiB, even if it is compressed", async () => {
      const expected = { status: 413, code: "resource_exhausted", reason: "MESSAGE_TOO_LARGE" };
      const text = JSON.stringify({ user_group_id: "a", padding: "x".repeat(1024 * 1024) });
      const headers = { authorization: `Token ${server.tokens.customer}`, "content-encoding": "gzip" };
      expectRestError(await http1(server.url, "/api/user", { method: "PUT", headers, body: gzipSync(text) }), expected);
      const fits = JSON.stringify({ user_group_id: newId(), padding: "" });
      const full = fits.replace('""', `"${"x".repeat(1024 * 1024 - Buffer.byteLength(fits))}"`);
      expect((await ok(call("GET", full))).success).toBe(1);
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
      [
        "POST",
        { user_group_id: "a", previous_token_ttl: "300s of grace" },
        "MALFORMED_REQUEST",
        ["previous_token_ttl"],
      ],
      ["POST", { user_group_id: "a", previous_token_ttl: "300s\n" }, "MALFORMED_REQUEST", ["previous_token_ttl"]],
      ["POST", { user_group_id: "a", previous_token_ttl: "-1s" }, "VALIDATION_FAILED", ["previous_token_ttl"]],
    ] as const)("%s with %j", async (method, body, reason, fields) => {
      const answer = await call(method, body as unknown as JsonObject);
      expectRestError(answer, { status: 400, code: "invalid_argument", reason, fields });
    });

    it("requests for groups and tokens that do not exist", async () => {
      const group = await call("PUT", { user_group_id: newId(), name: "a" });
      expectRestError(group, { status: 404, code: "not_found", reason: "USER_GROUP_NOT_FOUND" });
      const token = await call("POST", { current_token: "ugt_x" });
      expectRestError(token, { status: 404, code: "not_found", reason: "TOKEN_NOT_FOUND" });
    });
  });
});
