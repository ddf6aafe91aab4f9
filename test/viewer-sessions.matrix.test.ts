import { ConnectError, createClient } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { http1 } from "@user-group-service/testing/http";
import { forSuite } from "@user-group-service/testing/opened";
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { SigningKey_State } from "../gen/usergroup/admin/v1/signing_key_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { newUserGroupToken } from "../src/domain/token.ts";
import type { JsonObject } from "../src/domain/user-group.ts";
import {
  ADMIN_CLIENTS,
  type AdminClientOptions,
  adminOf,
  bearer,
  customerOf,
  issueToken,
  newName,
  openAdminTransport,
  presenting,
  ROLE_VALUES,
} from "./support/admin.ts";
import { describeClients, describeServers, newId } from "./support/matrix.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

/** Values of a new session, with the field names of REST. */
interface Wanted extends JsonObject {
  audience: string;
}

interface Told {
  readonly providedId: string;
  readonly properties: unknown;
  readonly viewerId: string;
  readonly origin: string;
  readonly audience: string;
  readonly claims: unknown;
  readonly id: string;
  readonly expireTime: number;
}

interface Made {
  readonly session: string;
  readonly id: string;
  readonly expireTime: number;
  readonly refreshTime: number;
}

/** Calls that create and resolve sessions over a protocol. The promises reject with a `ConnectError`. */
interface Viewers {
  create(wanted: JsonObject, token?: string): Promise<Made>;
  /** Resolves with undefined if the session is not active. */
  resolve(token: string, audience?: string, apiToken?: string): Promise<Told | undefined>;
}

type Row = AdminClientOptions | { readonly name: string; readonly protocol: "rest" };

const ROWS: readonly Row[] = [...ADMIN_CLIENTS, { name: "REST", protocol: "rest" }];

const seconds = (time?: { readonly seconds: bigint }) => Number(time?.seconds);

describeClients(ROWS, (server, row) => {
  const viewers = row.protocol === "rest" ? overRest(server) : overRpc(server, row as AdminClientOptions);
  const groups = () => grpcClients(server).groups;
  const issuer = (tag = "/Customer") => `${server.url}/e/${server.environment}${tag}`;

  async function newGroup(properties: JsonObject = {}) {
    const { userGroup } = await groups().getUserGroup({ userGroupId: newId(), properties });
    if (!userGroup) return expect.fail("no group");
    return userGroup;
  }

  const made = (given: JsonObject, token?: string) => viewers.create({ audience: "page", ...given }, token);

  it("sessions created by token contain the requested claims, and can be resolved", async () => {
    const group = await newGroup({ plan: "x", secret: 1, none: null });
    const before = Math.floor(Date.now() / 1000);
    const { session, id, expireTime, refreshTime } = await made({
      token: group.token,
      ttl: "300s",
      viewer_id: "bob é",
      origin: "https://app.example.com",
      property_keys: ["plan", "missing", "none"],
      claims: { a: [1, { b: "c" }] },
    });
    expect(expireTime - before).toBeGreaterThanOrEqual(300);
    expect(expireTime - before).toBeLessThan(330);
    expect(refreshTime).toBe(expireTime - 60);
    expect(await viewers.resolve(session, "page")).toEqual({
      providedId: group.providedId,
      properties: { plan: "x", secret: 1, none: null },
      viewerId: "bob é",
      origin: "https://app.example.com",
      audience: "page",
      claims: { a: [1, { b: "c" }] },
      id,
      expireTime,
    });
    // A host needs only the published keys to verify the session.
    const keys = createRemoteJWKSet(new URL(`${issuer()}/.well-known/jwks.json`));
    const options = { algorithms: ["ES256"], typ: "viewer+jwt", issuer: issuer(), audience: "page" };
    const { payload } = await jwtVerify(session, keys, options);
    expect(payload).toMatchObject({
      sub: group.providedId,
      tid: Number(group.teamId),
      vid: "bob é",
      origin: "https://app.example.com",
      properties: { plan: "x", none: null },
      ext: { a: [1, { b: "c" }] },
      jti: id,
      exp: expireTime,
    });
    expect(Object.keys(decodeProtectedHeader(session)).sort()).toEqual(["alg", "kid", "typ"]);
  });

  it("sessions created by id contain only the necessary claims, and expire after ten minutes", async () => {
    const { providedId } = await newGroup({ secret: 1 });
    const { session, expireTime } = await made({ user_group_id: providedId });
    const reported = await viewers.resolve(session);
    expect(reported).toMatchObject({ providedId, viewerId: "", origin: "" });
    const payload = JSON.parse(Buffer.from(session.split(".")[1] as string, "base64url").toString());
    expect(Object.keys(payload).sort()).toEqual(["aud", "exp", "gen", "iat", "iss", "jti", "sub", "tid"]);
    expect(payload.exp - payload.iat).toBe(600);
    expect(payload.exp).toBe(expireTime);
  });

  it("creating a session by token needs role resolve, and creating a session by id needs role read", async () => {
    const { providedId, token } = await newGroup();
    const resolver = await issueToken(server, "resolve");
    const reader = await issueToken(server, "read");
    await made({ token }, resolver.token);
    await made({ user_group_id: providedId }, reader.token);
    const denied = await failureOf(made({ user_group_id: providedId }, resolver.token));
    expect(denied).toEqual({ code: "PermissionDenied", reason: "ROLE_TOO_LOW" });
    const missing = await failureOf(made({ user_group_id: newId() }));
    expect(missing).toEqual({ code: "NotFound", reason: "USER_GROUP_NOT_FOUND" });
    const unknown = await failureOf(made({ token: newUserGroupToken() }));
    expect(unknown).toEqual({ code: "NotFound", reason: "TOKEN_NOT_FOUND" });
  });

  it.each<[string, JsonObject]>([
    ["no audience", { audience: "" }],
    ["a lifetime that is too short", { ttl: "59s" }],
    ["a lifetime that is too long", { ttl: "3601s" }],
    ["an origin with a path", { origin: "https://app.example.com/" }],
    ["an invalid origin", { origin: "app.example.com" }],
    ["claims that are too large", { claims: { text: "x".repeat(2048) } }],
    ["a token as the viewer id", { viewer_id: "ugt_0000000000000000000000000000000000000000" }],
    ["a long audience", { audience: "x".repeat(257) }],
  ])("the service refuses to create a session with %s", async (_title, given) => {
    const { token, providedId } = await newGroup();
    const wanted = { user_group_id: providedId, ...given };
    if (given["viewer_id"] !== undefined) Object.assign(wanted, { viewer_id: token });
    expect(await failureOf(made(wanted))).toEqual({ code: "InvalidArgument", reason: "VALIDATION_FAILED" });
  });

  it("the service refuses to create a session that would exceed the maximum size", async () => {
    const { providedId } = await newGroup({ long: "x".repeat(7000) });
    await made({ user_group_id: providedId });
    const refused = await failureOf(made({ user_group_id: providedId, property_keys: ["long"] }));
    expect(refused).toEqual({ code: "InvalidArgument", reason: "VIEWER_SESSION_TOO_LARGE" });
  });

  it("sessions are accepted only for their audience, and only with API tokens of their environment", async () => {
    const { token } = await newGroup();
    const { session } = await made({ token });
    expect(await viewers.resolve(session)).toBeDefined();
    expect(await viewers.resolve(session, "another page")).toBeUndefined();
    for (const other of [server.tokens.testing, server.tokens.untagged])
      expect(await viewers.resolve(session, "", other)).toBeUndefined();
    // A viewer session is not a credential for other calls.
    const answer = await http1(server.url, "/api/user", { method: "GET", headers: bearer(session) });
    expect([answer.status, answer.body.toString().includes(session)]).toEqual([401, false]);
  });

  it("sessions of a token in its grace period expire with the token, and a rotation without a grace period revokes all sessions", async () => {
    const { token, providedId } = await newGroup();
    const { session } = await made({ token });
    const group = { case: "userGroupId", value: providedId } as const;
    await groups().rotateUserGroupToken({ group, previousTokenTtl: { seconds: 120n } });
    expect(await viewers.resolve(session)).toBeDefined();
    const inGrace = await made({ token });
    expect(inGrace.expireTime).toBeLessThanOrEqual(Date.now() / 1000 + 121);
    await groups().rotateUserGroupToken({ group });
    for (const text of [session, inGrace.session]) expect(await viewers.resolve(text)).toBeUndefined();
  });

  it("sessions of one viewer can be revoked, while the sessions of other viewers of the group stay valid", async () => {
    const { providedId } = await newGroup();
    const [bob, alice, nobody] = await Promise.all(
      ["bob", "alice", ""].map((viewer_id) => made({ user_group_id: providedId, viewer_id })),
    );
    const group = { environment: customerOf(server), userGroupId: providedId };
    await adminOf(server.url).revokeViewerSessions({ ...group, viewerId: "bob" });
    expect(await viewers.resolve(bob?.session ?? "")).toBeUndefined();
    for (const other of [alice, nobody]) expect(await viewers.resolve(other?.session ?? "")).toBeDefined();
    await adminOf(server.url).revokeViewerSessions(group);
    for (const other of [alice, nobody]) expect(await viewers.resolve(other?.session ?? "")).toBeUndefined();
  });

  it("sessions are rejected after a modification of the header or the payload", async () => {
    const { token } = await newGroup();
    const { session } = await made({ token });
    const [head = "", payload = "", signature = ""] = session.split(".");
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const header = decodeProtectedHeader(session);
    for (const text of [
      `${part({ ...header, alg: "none" })}.${payload}.`,
      `${head}.${part({ sub: "everyone" })}.${signature}`,
    ])
      expect(await viewers.resolve(text), text.slice(0, 100)).toBeUndefined();
  });
});

describeServers((server) => {
  const viewers = overRest(server);
  const wellKnown = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    http1(server.url, path, { method, headers });
  const pathOf = (tag = "/Testing") => `/e/${server.environment}${tag}/.well-known`;

  it("the path of the published keys returns no keys for a missing environment, and allows only GET and HEAD", async () => {
    const paths = [`/e/${newName()}/.well-known/jwks.json`, "/e/../.well-known/jwks.json", "/e//.well-known/jwks.json"];
    const answers = await Promise.all(paths.map((path) => wellKnown(path)));
    for (const { status, headers } of answers) expect([status, headers.etag]).toEqual([404, undefined]);
    for (const method of ["POST", "PUT", "DELETE"]) {
      const { status, headers } = await wellKnown(`${pathOf()}/jwks.json`, {}, method);
      expect([status, headers.allow]).toEqual([405, "GET, HEAD"]);
    }
  });

  it("the keys of an environment are published to unauthenticated clients, with an ETag and a cache lifetime of ten minutes", async () => {
    const { groups } = grpcClients(server, server.tokens.testing);
    const { userGroup } = await groups.getUserGroup({ userGroupId: newId() });
    await viewers.create({ token: userGroup?.token ?? "", audience: "page" }, server.tokens.testing);
    for (const name of ["jwks.json", "openid-configuration"]) {
      const path = `${pathOf()}/${name}`;
      const answer = await wellKnown(path, { origin: "https://anyone.example" });
      expect(answer.status).toBe(200);
      expect(answer.headers).toMatchObject({
        "cache-control": "public, max-age=600",
        "access-control-allow-origin": "*",
        etag: expect.stringMatching(/^"/),
      });
      const etag = String(answer.headers.etag);
      for (const condition of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
        const unchanged = await wellKnown(path, { "if-none-match": condition });
        expect([unchanged.status, unchanged.body.length, unchanged.headers.etag]).toEqual([304, 0, etag]);
      }
      expect((await wellKnown(path, { "if-none-match": '"x"' })).status).toBe(200);
      const head = await wellKnown(path, {}, "HEAD");
      expect([head.status, head.body.length, head.headers.etag]).toEqual([200, 0, etag]);
    }
    const jwks = (await wellKnown(`${pathOf()}/jwks.json`)).json<{ keys: JsonObject[] }>();
    expect(jwks.keys).toHaveLength(2);
    for (const key of jwks.keys) expect(Object.keys(key).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x", "y"]);
    const { issuer, jwks_uri } = (await wellKnown(`${pathOf()}/openid-configuration`)).json<JsonObject>();
    expect(issuer).toBe(`${server.url}/e/${server.environment}/Testing`);
    expect(jwks_uri).toBe(`${String(issuer)}/.well-known/jwks.json`);
  });

  it("RotateSigningKey keeps the old signing keys. With `end_sessions`, it replaces all keys and revokes all sessions", async () => {
    const admin = adminOf(server.url);
    const name = newName();
    const environment = { name };
    await admin.createEnvironment({ environment });
    expect((await admin.listSigningKeys({ environment })).signingKeys).toEqual([]);
    const kidsOf = async () => {
      const { status, json } = await wellKnown(`/e/${name}/.well-known/jwks.json`);
      return status === 404 ? [] : json<{ keys: { kid: string }[] }>().keys.map(({ kid }) => kid);
    };
    const { signingKeys: made } = await admin.rotateSigningKey({ environment });
    expect(made.map(({ state }) => state)).toEqual([SigningKey_State.ACTIVE, SigningKey_State.STANDBY]);
    expect((await kidsOf()).sort()).toEqual(made.map(({ id }) => id).sort());
    const { token } = await admin.createApiToken({ environment, displayName: "a", role: ROLE_VALUES.manage });
    const { groups } = grpcClients(server, token);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
    const { session } = await viewers.create({ token: userGroup?.token ?? "", audience: "page" }, token);
    expect(decodeProtectedHeader(session).kid).toBe(made[0]?.id);
    // A key must be published for a minimum time before it signs. So the standby key does not sign yet.
    const { signingKeys: waiting } = await admin.rotateSigningKey({ environment });
    expect(waiting.map(({ id, state }) => [id, state])).toEqual(made.map(({ id, state }) => [id, state]));
    const wait = seconds(waiting[1]?.activeTime) - Date.now() / 1000;
    expect([wait > 600, wait < 901]).toEqual([true, true]);
    expect(await viewers.resolve(session, "", token)).toBeDefined();
    const { signingKeys: replaced } = await admin.rotateSigningKey({ environment, endSessions: true });
    const ids = replaced.map(({ id }) => id);
    expect(ids.filter((id) => made.some((key) => key.id === id))).toEqual([]);
    expect(await viewers.resolve(session, "", token)).toBeUndefined();
    expect((await kidsOf()).sort()).toEqual([...ids].sort());
    const next = await viewers.create({ token: userGroup?.token ?? "", audience: "page" }, token);
    expect(await viewers.resolve(next.session, "", token)).toBeDefined();
    expect(JSON.stringify(replaced.map((key) => Object.values(key).map(String)))).not.toMatch(/"d"/);
    const { auditEvents } = await admin.listAuditEvents({ environment, method: "RotateSigningKey" });
    expect(auditEvents.map(({ actorId, changedFields }) => [actorId, changedFields])).toEqual(
      Array(3).fill(["root", ["signing_keys"]]),
    );
    await admin.deleteEnvironment({ environment, force: true });
    expect(await kidsOf()).toEqual([]);
  });
});

function overRpc(server: TestServer, options: AdminClientOptions): Viewers {
  const opened = forSuite(
    () => openAdminTransport(server.url, options),
    ({ close }) => close(),
  );
  const client = (token = server.tokens.customer) => createClient(ViewerService, presenting(opened.transport, token));
  return {
    async create({ token, user_group_id, ttl, viewer_id, property_keys, ...given }, apiToken) {
      const group =
        token === undefined
          ? { case: "userGroupId" as const, value: String(user_group_id) }
          : { case: "token" as const, value: String(token) };
      const answer = await client(apiToken).createViewerSession({
        ...(given as Wanted & { origin?: string; claims?: JsonObject }),
        group,
        viewerId: viewer_id as string,
        propertyKeys: property_keys as string[],
        ...(ttl !== undefined && { ttl: { seconds: BigInt(Number.parseInt(String(ttl), 10)) } }),
      });
      const { session, id, expireTime, refreshTime } = answer;
      return { session, id, expireTime: seconds(expireTime), refreshTime: seconds(refreshTime) };
    },
    async resolve(token, audience = "", apiToken) {
      try {
        const { providedId, properties, session } = await client(apiToken).resolveViewer({ token, audience });
        if (!session) return expect.fail("the response has no session");
        const { viewerId, origin, claims, id, expireTime } = session;
        const reported = { viewerId, origin, audience: session.audience, claims, id, expireTime: seconds(expireTime) };
        return { providedId, properties, ...reported };
      } catch (error) {
        const { code, reason } = await failureOf(Promise.reject(error));
        expect(code).toBe("NotFound");
        expect(reason).toMatch(/^VIEWER_SESSION_/);
        expect(String(error)).not.toContain(token);
        return undefined;
      }
    },
  };
}

function overRest(server: TestServer): Viewers {
  const post = async (target: string, body: JsonObject, token = server.tokens.customer) => {
    const headers = { ...bearer(token), "content-type": "application/json" };
    return http1(server.url, target, { method: "POST", headers, body: JSON.stringify(body) });
  };
  const secondsOf = (text: unknown) => Date.parse(String(text)) / 1000;
  return {
    async create(wanted, apiToken) {
      const answer = await post("/api/viewer/session", wanted, apiToken);
      const body = answer.json<JsonObject & { error?: { code: string; reason: string } }>();
      if (body.error) {
        const { code, reason } = body.error;
        throw new ConnectError(reason, codeFromString(code), undefined, [{ desc: ErrorInfoSchema, value: { reason } }]);
      }
      expect(answer.headers["cache-control"]).toBe("no-store");
      const times = { expireTime: secondsOf(body["expire_time"]), refreshTime: secondsOf(body["refresh_time"]) };
      return { session: String(body["session"]), id: String(body["id"]), ...times };
    },
    async resolve(token, audience = "", apiToken) {
      const answer = await post("/api/viewer", { token, audience }, apiToken);
      expect(answer.status).toBe(200);
      const body = answer.json<JsonObject>();
      if (body["active"] !== true) {
        expect(answer.body.toString()).toBe('{"active":false}\n');
        return undefined;
      }
      return {
        providedId: String(body["sub"]),
        properties: body["properties"],
        viewerId: String(body["viewer_id"] ?? ""),
        origin: String(body["origin"] ?? ""),
        audience: String(body["aud"]),
        claims: body["ext"] ?? undefined,
        id: String(body["jti"]),
        expireTime: Number(body["exp"]),
      };
    },
  };
}
