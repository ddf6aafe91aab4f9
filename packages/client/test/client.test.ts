import { Agent, createServer, type OutgoingHttpHeaders, type RequestListener } from "node:http";
import { createSecureServer } from "node:http2";
import { createServer as createTlsServer } from "node:https";
import { connect } from "node:net";
import type { Interceptor } from "@connectrpc/connect";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { closeLater, forSuite, newListener } from "@user-group-service/testing/opened";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ADMIN_ENV, adminOf, customerOf } from "../../../test/support/admin.ts";
import { newId } from "../../../test/support/matrix.ts";
import { newServer, sharedServer } from "../../../test/support/opened.ts";
import { ADMIN_TOKEN } from "../../../test/support/server.ts";
import {
  type ClientOptions,
  Code,
  ConnectError,
  createUserGroupServiceClient,
  failureDetails,
  pages,
  Role,
  reasonOf,
  requestIdOf,
} from "../src/index.ts";

function newClient(options: ClientOptions) {
  const client = createUserGroupServiceClient(options);
  closeLater(() => client.close());
  return client;
}

const failureOf = (call: Promise<unknown>): Promise<ConnectError> =>
  call.then(
    () => Promise.reject(new Error("the call did not fail")),
    (error: ConnectError) => error,
  );

const byId = (id: string) => ({ case: "userGroupId", value: id }) as const;

describe("the client", () => {
  const server = sharedServer();

  it("calls every service", async () => {
    const { userGroups, viewers, admin } = newClient({ url: server.url, token: server.tokens.customer });
    const id = newId();
    const { userGroup, newUserGroup } = await userGroups.getUserGroup({
      userGroupId: id,
      properties: { plan: "gold" },
    });
    expect(newUserGroup).toBe(true);
    const { userGroup: rotated } = await userGroups.rotateUserGroupToken({ group: byId(id) });
    expect(rotated?.token).not.toBe(userGroup?.token);
    const viewer = await viewers.resolveViewer({ token: rotated?.token ?? "" });
    expect(viewer).toMatchObject({ providedId: id, properties: { plan: "gold" } });
    expect(await admin.getCaller({})).toMatchObject({ role: "manage" });
    const root = newClient({ url: server.url, token: ADMIN_TOKEN });
    expect(await root.admin.getCaller({})).toMatchObject({ role: "root" });
  });

  it("returns the suspension message of a suspended group, even an empty message", async () => {
    const { admin } = newClient({ url: server.url, token: ADMIN_TOKEN });
    const { userGroups, viewers } = newClient({ url: server.url, token: server.tokens.customer });
    const userGroupId = newId();
    const { userGroup } = await userGroups.getUserGroup({ userGroupId });
    for (const message of ["Please call us.", ""]) {
      await admin.suspendUserGroup({ environment: customerOf(server), userGroupId, message });
      const failed = await failureOf(viewers.resolveViewer({ token: userGroup?.token ?? "" }));
      expect(failureDetails(failed)).toMatchObject({ reason: "USER_GROUP_SUSPENDED", suspensionMessage: message });
    }
    const unknown = failureDetails(await failureOf(viewers.resolveViewer({ token: "nobody-has" })));
    expect([unknown?.reason, unknown?.suspensionMessage]).toEqual(["TOKEN_NOT_FOUND", undefined]);
  });

  it("returns the reason, the invalid fields and the request id of a refused call", async () => {
    const { userGroups, viewers } = newClient({ url: server.url, token: server.tokens.customer });
    const unknown = await failureOf(viewers.resolveViewer({ token: "nobody-has" }));
    expect(reasonOf(unknown)).toBe("TOKEN_NOT_FOUND");
    const id = requestIdOf(unknown);
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    await waitFor("the log has the call", () => server.log().some(({ request_id }) => request_id === id));
    const invalid = await failureOf(userGroups.getUserGroup({ userGroupId: "" }));
    expect(failureDetails(invalid)).toMatchObject({
      reason: "VALIDATION_FAILED",
      violations: [{ field: "user_group_id" }],
    });
    const unauthenticated = newClient({ url: server.url, token: "nobody-has-this-one" });
    const denied = await failureOf(unauthenticated.userGroups.getUserGroup({ userGroupId: newId() }));
    expect([denied.code, reasonOf(denied)]).toEqual([Code.Unauthenticated, "API_TOKEN_UNKNOWN"]);
  });

  it("returns every page of a list, and throws if a call fails", async () => {
    const { userGroups, admin } = newClient({ url: server.url, token: server.tokens.customer });
    const prefix = newId();
    const ids = Array.from({ length: 5 }, (_, i) => `${prefix}-${i}`);
    await Promise.all(ids.map((userGroupId) => userGroups.getUserGroup({ userGroupId })));
    const manager = newClient({ url: server.url, token: ADMIN_TOKEN });
    const found: string[][] = [];
    const request = { environment: customerOf(server), providedIdPrefix: `${prefix}-`, pageSize: 2 };
    for await (const { userGroups } of pages(manager.admin.listUserGroups, request))
      found.push(userGroups.map(({ providedId }) => providedId));
    expect(found.map(({ length }) => length)).toEqual([2, 2, 1]);
    expect(found.flat().sort()).toEqual(ids);
    const failing = pages(admin.listUserGroups, { pageToken: "none" }).next();
    await expect(failing).rejects.toBeInstanceOf(ConnectError);
  });

  it("uses the option agent, and throws if both agent and tls are set", async () => {
    const agent = new Agent({ keepAlive: true });
    const there = new URL(server.url);
    // Like the agent of a proxy, this agent connects to an address that differs from the URL.
    agent.createConnection = () => connect(Number(there.port), there.hostname);
    const { admin } = newClient({ url: "http://groups.invalid", token: server.tokens.customer, agent });
    expect(await admin.getCaller({})).toMatchObject({ role: "manage" });
    expect(() => newClient({ url: server.url, token: "any", agent, tls: {} })).toThrow(
      expect.objectContaining({ name: "TypeError", message: expect.stringMatching(/to the agent$/) }),
    );
  });

  it("calls the token function again if the service rejects the token", async () => {
    const admin = adminOf(server.url);
    const environment = customerOf(server);
    const made = await Promise.all(
      ["one", "two"].map((displayName) => admin.createApiToken({ environment, displayName, role: Role.READ })),
    );
    const texts = made.map(({ token }) => token);
    const requested: (string | undefined)[] = [];
    const { admin: own } = newClient({
      url: server.url,
      token: ({ refused }) => {
        requested.push(refused);
        if (refused !== undefined) texts.shift();
        return texts[0] ?? "";
      },
    });
    const [first = ""] = texts;
    expect(await own.getCaller({})).toMatchObject({ displayName: "one" });
    await admin.revokeApiToken({ environment, apiTokenId: made[0]?.apiToken?.id ?? "" });
    expect(await own.getCaller({})).toMatchObject({ displayName: "two" });
    expect(requested).toEqual([undefined, undefined, first]);
  });
});

it("if a response is lost, the client repeats a rotation with the same request id, and the service rotates once", async () => {
  const server = await newServer({ env: ADMIN_ENV });
  const ids: (string | undefined)[] = [];
  // Forwards all requests. After the first rotation, closes the connection instead of sending the response.
  const between = createServer(async (req, res) => {
    const body = Buffer.concat(await req.toArray());
    const headers = { authorization: String(req.headers.authorization), "content-type": "application/proto" };
    const answer = await fetch(`${server.url}${req.url}`, { method: "POST", headers, body });
    const answered = Buffer.from(await answer.arrayBuffer());
    if (req.url?.endsWith("RotateUserGroupToken")) {
      ids.push(/[0-9a-f-]{36}/.exec(body.toString("latin1"))?.[0]);
      if (ids.length === 1) return void res.destroy();
    }
    res.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" }).end(answered);
  });
  const { userGroups } = newClient({ url: await newListener(between), token: server.tokens.customer });
  const id = newId();
  const { userGroup: before } = await userGroups.getUserGroup({ userGroupId: id });
  const { userGroup: rotated } = await userGroups.rotateUserGroupToken({ group: byId(id) });
  expect(ids).toHaveLength(2);
  expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
  expect(ids[1]).toBe(ids[0]);
  expect(rotated?.token).not.toBe(before?.token);
  const { auditEvents } = await adminOf(server.url).listAuditEvents({ environment: customerOf(server) });
  expect(auditEvents.filter(({ userGroupId }) => userGroupId === id)).toHaveLength(2);
});

describe("a wrong URL or TLS option", () => {
  const certificates = forSuite(makeCertificates, removeCertificates);
  const whyNot = async (options: Partial<ClientOptions>) => {
    const { userGroups } = newClient({ url: "", token: "anything-at-all", retry: false, ...options });
    const { message, cause } = await failureOf(userGroups.getUserGroup({ userGroupId: "acme" }));
    expect(cause).toBeInstanceOf(Error);
    return message;
  };

  it("causes an error that contains the fault and the remedy", async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    expect(await whyNot({ url: nobody })).toMatch(
      /cannot be reached at http:.*: nothing listens .*; check the URL, and whether the service runs/,
    );
    const { server, ca } = certificates;
    const withTls = createSecureServer({ cert: server.cert, key: server.key, allowHTTP1: true });
    expect(await whyNot({ url: await newListener(withTls, "https") })).toMatch(
      /untrusted CA; set tls\.ca .*NODE_EXTRA_CA_CERTS=FILE/,
    );
    const plainUrl = await newListener(
      createServer(() => {}),
      "https",
    );
    expect(await whyNot({ url: plainUrl })).toContain("if the server has no TLS, write http://");
    const named = createSecureServer({ cert: certificates.client.cert, key: certificates.client.key });
    const namedUrl = await newListener(named, "https");
    expect(await whyNot({ url: namedUrl, tls: { ca: ca.cert } })).toMatch(
      /another host name; .* name of the certificate .* URL/,
    );
  });

  it("causes an error that suggests checking the path if another server responds", async () => {
    const other = createServer((_, res) => void res.writeHead(404).end("Not Found"));
    expect(await whyNot({ url: await newListener(other) })).toContain("check the URL and its path");
  });

  it("causes an error that suggests https:// if the server speaks TLS", async () => {
    const withTls = createTlsServer({ cert: certificates.server.cert, key: certificates.server.key });
    expect(await whyNot({ url: await newListener(withTls) })).toContain("write https://");
  });

  it("causes a TypeError if a TLS option contains the path of a certificate instead of the content", () => {
    expect(() => newClient({ url: "https://a.example", token: "any", tls: { ca: certificates.ca.certFile } })).toThrow(
      /^tls\.ca must be .* not its path$/,
    );
  });
});

describe("a response that breaks off", () => {
  const cut = (status: number, headers: OutgoingHttpHeaders = {}): RequestListener => {
    return (_, res) => {
      res.writeHead(status, { "content-type": "application/proto", ...headers });
      res.write("\n", () => setImmediate(() => res.destroy()));
    };
  };

  it.each<[string, RequestListener]>([
    ["before its start", (_, res) => void res.destroy()],
    ["by a reset", (req) => void req.socket.resetAndDestroy()],
    ["within its chunks", cut(200)],
    ["before the end of its Content-Length", cut(200, { "content-length": 9 })],
    ["within its compressed data", cut(200, { "content-encoding": "gzip" })],
    ["within an error", cut(404, { "content-type": "application/json" })],
  ])("%s causes the code unavailable, and the client repeats only safe calls", async (_, broken) => {
    const codes: (Code | undefined)[] = [];
    const counting: Interceptor = (next) => async (request) => {
      try {
        const answered = await next(request);
        codes.push(undefined);
        return answered;
      } catch (error) {
        codes.push(ConnectError.from(error).code);
        throw error;
      }
    };
    const url = await newListener(
      createServer((req, res) => {
        if (codes.length !== 1) return broken(req, res);
        res.writeHead(200, { "content-type": "application/proto" }).end();
      }),
    );
    const { userGroups } = newClient({ url, token: "anything-at-all", interceptors: [counting] });
    await userGroups.getUserGroup({ userGroupId: "acme" });
    const failed = await failureOf(userGroups.updateUserGroup({ userGroupId: "acme" }));
    expect(failed.code).toBe(Code.Unavailable);
    expect(codes).toEqual([Code.Unavailable, undefined, Code.Unavailable]);
  });
});

it("the client repeats a call until the service has started", async () => {
  const port = await freePort();
  const service = createServer((_, res) => void res.writeHead(200, { "content-type": "application/proto" }).end());
  closeLater(() => service.close());
  let tries = 0;
  const token = () => {
    if (++tries === 2) service.listen(port, "127.0.0.1");
    return "anything-at-all";
  };
  await newClient({ url: `http://127.0.0.1:${port}`, token }).userGroups.updateUserGroup({ userGroupId: "acme" });
  expect(tries).toBeGreaterThan(1);
});

it("the client ends a call at its deadline", async () => {
  const url = await newListener(createServer(() => {}));
  const late = await failureOf(
    newClient({ url, token: "anything-at-all", timeoutMs: 200 }).userGroups.getUserGroup({ userGroupId: "acme" }),
  );
  expect(late.code).toBe(Code.DeadlineExceeded);
  expect(reasonOf(late)).toBeUndefined();
  expect(requestIdOf(late)).toMatch(/^[0-9a-f-]{36}$/);
});

it.each([
  "",
  "groups.example.com",
  "ftp://groups.example.com",
  "https://me:secret@groups.example.com",
  "https://groups.example.com/?a=b",
])("the client rejects the URL %j", (url) => {
  expect(() => createUserGroupServiceClient({ url, token: "anything-at-all" })).toThrow(/^url must (?!.*secret)/);
});
