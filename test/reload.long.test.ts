import { renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { makeServerCertificate } from "@user-group-service/testing/certificates";
import { closeLater } from "@user-group-service/testing/opened";
import { repeat } from "@user-group-service/testing/repeat";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, inject, it } from "vitest";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { mountSecrets, shownBy } from "./support/secret-files.ts";
import { type TestServer, tokenKey } from "./support/server.ts";

const certificates = inject("certificates");
const { cert: ca } = certificates.ca;
const WORKERS = 2;

const [OLD, NEW] = [tokenKey("old", 1), tokenKey("new", 2)];

describeWithRedis.each(RUNTIMES)("reloads under load, on %s", (runtime) => {
  it("replaced secrets and certificates cause no failed calls", async () => {
    const redis = await newRedis();
    const operator = newOperator(redis);
    await operator.call("ACL", "SETUSER", "default", "resetpass", ">password-before");
    const [before, after] = [`before-${crypto.randomUUID()}`, `after-${crypto.randomUUID()}`];
    const { cert, key: certKey } = certificates.server;
    const mounted = mountSecrets({
      api: `acme=${before}`,
      keys: OLD,
      password: "password-before\n",
      cert,
      certKey,
    });
    const env = {
      WORKERS: String(WORKERS),
      TOKEN_KEYS: "",
      API_TOKENS: "",
      TOKEN_KEYS_FILE: mounted.pathOf("keys"),
      API_TOKENS_FILE: mounted.pathOf("api"),
      REDIS_PASSWORD_FILE: mounted.pathOf("password"),
      TLS_CERT_FILE: mounted.pathOf("cert"),
      TLS_KEY_FILE: mounted.pathOf("certKey"),
    };
    const server = await newServer({ runtime, redisUrl: redis.url, env, ...denoFlags(runtime, mounted.folder) });
    const reported = (msg: string) => server.log().filter((line) => line.msg.endsWith(msg)).length;
    const whenAll = async (msg: "are used" | "previous content", change: () => void) => {
      const count = reported(msg) + WORKERS;
      change();
      await waitFor(`all workers have logged "${msg}"`, () => reported(msg) >= count);
      await load.some();
    };
    const load = startLoad(server, before);

    await whenAll("are used", () => mounted.swap({ api: `acme=${before}\nacme=${after}` }));
    load.token = after;
    await load.some();
    await whenAll("are used", () => mounted.swap({ api: `acme=${after}` }));
    await whenAll("previous content", () => mounted.swap({ api: `acme=${after},acme=${after}` }));
    await whenAll("are used", () => mounted.swap({ api: `acme=${after}` }));

    const [second, third, fourth] = ["second", "third", "fourth"].map((name) =>
      makeServerCertificate(certificates, `${name}-${runtime}`),
    );
    await whenAll("are used", () => mounted.swap({ cert: second?.cert ?? "", certKey: second?.key ?? "" }));
    expect(await shownBy(server.url, ca)).toBe(`second-${runtime}`);
    // Overwrite the files in place, one after the other. At first, a file is empty. Then it contains a part of the
    // text.
    for (const [name, text = ""] of [
      ["cert", third?.cert],
      ["certKey", third?.key],
    ] as const) {
      for (const length of [0, 100, text.length]) {
        writeFileSync(mounted.pathOf(name), text.slice(0, length));
        await pause(700);
      }
      if (name === "cert")
        await waitFor("the certificate does not match the key", () => reported("previous content") >= 2 * WORKERS);
      expect(await shownBy(server.url, ca)).toMatch(name === "cert" ? /^second/ : /^(second|third)/);
    }
    await waitFor(
      "the certificate matches the key",
      async () => (await shownBy(server.url, ca)) === `third-${runtime}`,
    );
    // Replaces each file with a symbolic link, the key first.
    for (const name of ["certKey", "cert"] as const) {
      const refused = reported("previous content");
      symlinkSync((name === "cert" ? fourth?.certFile : fourth?.keyFile) ?? "", `${mounted.pathOf(name)}-link`);
      renameSync(`${mounted.pathOf(name)}-link`, mounted.pathOf(name));
      if (name === "certKey")
        await waitFor(
          "the certificate does not match the key",
          () => reported("previous content") >= refused + WORKERS,
        );
      else
        await waitFor(
          "the certificate matches the key",
          async () => (await shownBy(server.url, ca)) === `fourth-${runtime}`,
        );
    }

    await whenAll("previous content", () => mounted.swap({ keys: `${NEW}\n${OLD}` }));
    await whenAll("are used", () => mounted.swap({ keys: `${OLD}\n${NEW}` }));
    await whenAll("are used", () => mounted.swap({ keys: `${NEW}\n${OLD}` }));
    await whenAll("previous content", () => mounted.swap({ keys: NEW }));

    await whenAll("previous content", () => mounted.swap({ password: "password-after" }));
    await operator.call("ACL", "SETUSER", "default", ">password-after");
    await whenAll("are used", () => {});
    await operator.call("ACL", "SETUSER", "default", "<password-before");
    await load.some();
    await whenAll("previous content", () => rmSync(mounted.pathOf("api")));
    await whenAll("are used", () => {
      writeFileSync(mounted.pathOf("api-new"), `acme=${after}`);
      renameSync(mounted.pathOf("api-new"), mounted.pathOf("api"));
    });

    expect(await load.end()).toEqual([]);
    for (const secret of [before, after, "password-", OLD.slice(4), NEW.slice(4)])
      expect(server.output()).not.toContain(secret);
    // New connections must use the new password.
    const losses = reported("Redis connection is ready");
    await operator.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await waitFor("Redis responds", () => reported("Redis connection is ready") >= losses + WORKERS);
    const again = startLoad(server, after);
    await again.some();
    expect(await again.end()).toEqual([]);
  });
});

function denoFlags(runtime: string, folder: string) {
  return runtime === "node" ? {} : { denoFlags: [`--allow-read=${folder},${certificates.folder}`, "--allow-run"] };
}

/** Starts calls over long-lived gRPC and HTTP/1.1 connections, and over a new connection for each call. */
function startLoad({ url }: TestServer, token: string) {
  const calls = { lasting: 0, "HTTP/1.1": 0, new: 0, created: 0 };
  const manager = new Http2SessionManager(url, {}, { ca });
  const lasting = createClient(UserGroupService, createGrpcTransport({ baseUrl: url, sessionManager: manager }));
  const agent = new Agent({ keepAlive: true, ca });
  closeLater(() => {
    manager.abort();
    agent.destroy();
  });
  const load = { token, some, end: () => repeated.end() };
  const header = () => ({ headers: { Authorization: `Token ${load.token}` } });
  const rest = (of: Agent | false) =>
    new Promise<void>((resolve, reject) => {
      const path = "/api/user?user_group_id=group";
      const req = request(new URL(path, url), { agent: of, ca, ...header() }, (res) => {
        res.resume().once("error", reject);
        res.once("end", () => (res.statusCode === 200 ? resolve() : reject(new Error(`HTTP ${res.statusCode}`))));
      });
      req.once("error", reject).end();
    });
  const kinds: [keyof typeof calls, () => Promise<unknown>][] = [
    ["lasting", () => lasting.getUserGroup({ userGroupId: "group" }, header())],
    ["created", () => lasting.getUserGroup({ userGroupId: crypto.randomUUID() }, header())],
    ["HTTP/1.1", () => rest(agent)],
    ["new", () => rest(false)],
    [
      "new",
      async () => {
        const sessionManager = new Http2SessionManager(url, {}, { ca });
        const transport = createGrpcTransport({ baseUrl: url, sessionManager });
        await createClient(UserGroupService, transport).getUserGroup({ userGroupId: "group" }, header());
        sessionManager.abort();
      },
    ],
  ];
  const repeated = repeat(
    kinds.map(([kind, call]) => async () => {
      await call().catch((error: unknown) => {
        throw new Error(`${kind}: ${error}`);
      });
      calls[kind]++;
    }),
  );
  async function some(): Promise<void> {
    const before = { ...calls };
    const kindsOf = Object.keys(calls) as (keyof typeof calls)[];
    await waitFor(
      "more calls succeed",
      () => repeated.failures.length > 0 || kindsOf.every((kind) => calls[kind] > before[kind] + 5),
    );
  }
  return load;
}
