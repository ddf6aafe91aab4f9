import { connect as connectHttp2 } from "node:http2";
import { request } from "node:https";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { http1, http2On } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, inject, it } from "vitest";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { suiteServer } from "./support/opened.ts";
import type { TestServer } from "./support/server.ts";

/** The CA that a client trusts, and the certificate of the client. */
interface Identity {
  readonly ca: string;
  readonly cert?: string;
  readonly key?: string;
}

const certificates = inject("certificates");

describe.each(RUNTIMES)("a server with TLS on %s", (runtime) => {
  const env = { SHUTDOWN_TIMEOUT: "1h" };
  const server = suiteServer({ runtime, tls: certificates, env });
  const strict = suiteServer({
    runtime,
    tls: certificates,
    env: { ...env, TLS_CLIENT_CA_FILE: certificates.ca.certFile },
  });

  const trusting = (): Identity => ({ ca: certificates.ca.cert });
  const known = (): Identity => ({ ...trusting(), ...pick(certificates.client) });
  const untrusted = (): Identity => ({ ...trusting(), ...pick(certificates.untrusted) });

  it("has a URL with https", () => expect(server.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/));

  it("uses the protocol that ALPN selects", async () => {
    expect(await http2Status(server, trusting())).toEqual({ alpn: "h2", status: 200 });
    expect(await http1Status(server, trusting(), ["http/1.1"])).toEqual({ alpn: "http/1.1", status: 200 });
    expect(await http1Status(server, trusting(), undefined)).toMatchObject({ status: 200 });
  });

  it("rejects an unknown ALPN protocol and unencrypted HTTP", async () => {
    const attempt = negotiate(server, { ...trusting(), ALPNProtocols: ["spdy/3"] });
    await expect(attempt).rejects.toThrow(/ALPN|alert|ECONNRESET|disconnected/i);
    await expect(http1(server.url.replace("https:", "http:"), "/healthz")).rejects.toThrow();
  });

  it("a client that does not trust the CA of the server rejects the server", async () => {
    await expect(http1Status(server, { ca: certificates.untrusted.cert }, undefined)).rejects.toThrow(/certificate/i);
  });

  it("serves gRPC, Connect and REST", async () => {
    await serves(server, trusting());
  });

  it("a server with TLS_CLIENT_CA_FILE serves clients with a certificate of the CA in the file", async () => {
    await serves(strict, known());
    expect(await http2Status(strict, known())).toEqual({ alpn: "h2", status: 200 });
  });

  it("a server with TLS_CLIENT_CA_FILE rejects clients without a certificate of the CA in the file", async () => {
    for (const identity of [trusting(), untrusted()]) {
      await expect(http1Status(strict, identity, ["http/1.1"])).rejects.toThrow();
      await expect(http2Status(strict, identity)).rejects.toThrow();
    }
    // The server still works after these attempts.
    expect(await http1Status(strict, known(), undefined)).toMatchObject({ status: 200 });
  });

  it("exits without waiting for keep-alive connections", async () => {
    const { hostname: host, port } = new URL(server.url);
    const socket = connectTls({ host, port: Number(port), ...trusting(), ALPNProtocols: ["http/1.1"] });
    const session = connectHttp2(server.url, trusting());
    socket.on("error", () => {});
    session.on("error", () => {});
    try {
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk;
      });
      socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
      await waitFor("there is a response", () => text.startsWith("HTTP/1.1 200"));
      await waitFor("HTTP/2 is connected", () => !session.connecting);
      server.signal("SIGTERM");
      expect(await server.exited()).toBe(0);
    } finally {
      socket.destroy();
      session.destroy();
    }
  });
});

function pick({ cert, key }: { readonly cert: string; readonly key: string }) {
  return { cert, key };
}

async function serves(server: TestServer, identity: Identity): Promise<void> {
  const options = { baseUrl: server.url, nodeOptions: identity };
  const headers = { Authorization: `Token ${server.tokens.customer}` };
  const transports = [
    createGrpcTransport(options),
    createConnectTransport({ ...options, httpVersion: "1.1" }),
    createConnectTransport({ ...options, httpVersion: "2", useBinaryFormat: false }),
  ];
  for (const [i, transport] of transports.entries()) {
    const client = createClient(UserGroupService, transport);
    const { userGroup } = await client.getUserGroup({ userGroupId: `tls ${i}` }, { headers });
    expect(userGroup?.token).toMatch(/^ugt_/);
  }
  const rest = await http1Status(server, identity, undefined, { path: "/api/user?user_group_id=a", headers });
  expect(rest).toMatchObject({ status: 200 });
}

function http1Status(
  { url }: TestServer,
  identity: Identity,
  ALPNProtocols: string[] | undefined,
  { path = "/healthz", headers = {} }: { path?: string; headers?: { [name: string]: string } } = {},
): Promise<{ alpn: string | false | null; status: number | undefined }> {
  return new Promise((resolve, reject) => {
    const options = { ...identity, ...(ALPNProtocols && { ALPNProtocols }), headers, agent: false };
    const req = request(new URL(path, url), options as object, (res) => {
      const { alpnProtocol } = res.socket as TLSSocket;
      res.resume().once("end", () => resolve({ alpn: alpnProtocol, status: res.statusCode }));
    });
    req.once("error", reject).end();
  });
}

async function http2Status({ url }: TestServer, identity: Identity) {
  const session = connectHttp2(url, { ...identity }).on("error", () => {});
  try {
    const { status } = await http2On(session, "/healthz");
    return { alpn: session.alpnProtocol, status };
  } finally {
    session.destroy();
  }
}

function negotiate({ url }: TestServer, options: object): Promise<string | false | null> {
  return new Promise((resolve, reject) => {
    const { hostname: host, port } = new URL(url);
    const socket = connectTls({ host, port: Number(port), ...options });
    socket.once("error", reject);
    socket.once("secureConnect", () => resolve(socket.alpnProtocol));
  });
}
