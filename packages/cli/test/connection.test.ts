import { createServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { newListener } from "@user-group-service/testing/opened";
import { freePort } from "@user-group-service/testing/wait";
import { describe, expect, inject, it } from "vitest";
import { ADMIN_ENV } from "../../../test/support/admin.ts";
import { suiteServer } from "../../../test/support/opened.ts";
import { metricsUrlOf } from "../../../test/support/operations.ts";
import { asRoot, jsonLinesIn, linesIn, ugs, ugsBuilt } from "./support/ugs.ts";

const REQUEST = /request [0-9a-f-]{36}/;

describe("ugs with a service", () => {
  const server = suiteServer({ env: ADMIN_ENV });
  const env = () => asRoot(server);

  it("whoami shows the name, role and environment of the token", async () => {
    const { code, stdout, stderr } = await ugsBuilt(["whoami"], { env: env() });
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(new RegExp(`^service +${server.url}\nAPI token +root\n`));
    const customer = { UGS_URL: server.url, UGS_TOKEN: server.tokens.customer };
    expect((await ugs(["whoami"], { env: customer })).stdout).toContain(
      `environment  ${server.environment}/Customer\n`,
    );
    const json = await ugs(["whoami", "--json"], { env: customer });
    expect(JSON.parse(json.stdout)).toMatchObject({ role: "manage", environment: { name: server.environment } });
  });

  it("lists all environments, or at most `--limit` environments, as a table or as JSON", async () => {
    const table = await ugs(["env", "list"], { env: env() });
    const [head = "", ...rows] = linesIn(table.stdout);
    expect(head).toMatch(/^ENVIRONMENT +CREATED +BEING DELETED SINCE$/);
    expect(rows.map((row) => row.split(/ {2,}/)[0])).toEqual(
      ["", "/Customer", "/Testing"].map((tag) => `${server.environment}${tag}`),
    );
    const json = await ugs(["env", "list", "--json", "--limit", "2"], { env: env() });
    const objects = jsonLinesIn(json.stdout);
    expect(objects).toHaveLength(2);
    expect(objects[0]).toMatchObject({ name: server.environment });
  });

  it("exits with 4 for an unknown token or a role that is too low, and shows the request id", async () => {
    const unknown = await ugsBuilt(["whoami"], { env: { ...env(), UGS_TOKEN: "nobody-has-this-token" } });
    expect([unknown.code, unknown.stdout]).toEqual([4, ""]);
    expect(unknown.stderr).toMatch(/^ugs: the API token is unknown/);
    expect(unknown.stderr).toMatch(REQUEST);
    expect(unknown.stderr).toContain("ugs login");
    expect(unknown.stderr).not.toContain("nobody-has-this-token");
    const low = await ugs(["env", "list", "--json"], { env: { ...env(), UGS_TOKEN: server.tokens.customer } });
    expect(low.code).toBe(4);
    expect(JSON.parse(low.stderr)).toMatchObject({
      error: { code: "permission_denied", reason: "ROLE_TOO_LOW", exitCode: 4, requestId: expect.any(String) },
    });
  });

  it("reports that the service does not use TLS if the URL is https", async () => {
    const { stderr } = await ugs(["ping", "--url", server.url.replace("http", "https")]);
    expect(stderr).toMatch(/does not speak TLS\n {2}.*write http:/);
  });

  it("ping needs no token and reports that the service is ready", async () => {
    const { code, stdout } = await ugsBuilt(["ping", "--url", server.url]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^${server.url} is ready \\(\\d+ ms\\)\n$`));
    expect(JSON.parse((await ugs(["ping", "--json", "--url", server.url])).stdout)).toEqual({ status: "SERVING" });
    expect((await ugs(["ping", "--live", "--url", server.url])).code).toBe(0);
    expect((await ugs(["ping", "--changes", "--url", server.url])).stdout).toContain("is ready");
    expect((await ugs(["ping", "--changes", "--live", "--url", server.url])).code).toBe(2);
  });
});

describe("ugs with a TLS service", () => {
  const { ca, server, client, untrusted } = inject("certificates");
  const tls = { TLS_CERT_FILE: server.certFile, TLS_KEY_FILE: server.keyFile };
  const mutual = suiteServer({ env: { ...tls, TLS_CLIENT_CA_FILE: ca.certFile } });
  const ping = (url: string, ...args: string[]) => ugs(["ping", "--url", url, ...args]);
  const shown = ["--cert-file", client.certFile, "--key-file", client.keyFile];

  it("verifies the service with `--ca-file`, and presents a client certificate", async () => {
    expect((await ping(mutual.url, "--ca-file", ca.certFile, ...shown)).code).toBe(0);
    for (const [args, words] of [
      [shown, /\n {2}give --ca-file FILE/],
      [["--ca-file", ca.certFile], /give --cert-file/],
      [["--ca-file", untrusted.certFile, ...shown], /\n {2}give --ca-file FILE/],
      [["--ca-file", ca.certFile, ...shown, "--server-name", "else.example"], /\n.*--server-name/],
      [["--ca-file", ca.certFile, "--cert-file", client.certFile], /--cert-file and --key-file/],
      [["--ca-file", "/nowhere.pem"], /cannot read \/nowhere.pem: no such file/],
      [["--ca-file", client.keyFile], /contains no certificate in PEM/],
    ] as const) {
      const { code, stderr } = await ping(mutual.url, ...args);
      expect(stderr).toMatch(words);
      expect(code).toBe(/cannot reach/.test(stderr) ? 6 : 2);
    }
  });

  it("reports that the service uses TLS if the URL is http", async () => {
    expect((await ping(mutual.url.replace("https", "http"))).stderr).toMatch(/write https:/);
  });
});

describe("ugs ping --local", () => {
  const { ca, server } = inject("certificates");
  const tls = { TLS_CERT_FILE: server.certFile, TLS_KEY_FILE: server.keyFile };
  const mutual = { ...tls, TLS_CLIENT_CA_FILE: ca.certFile };
  const servers = { plain: suiteServer(), tls: suiteServer({ env: tls }), mutual: suiteServer({ env: mutual }) };
  const apart = suiteServer({ env: { ...mutual, METRICS_PORT: "0" } });
  const portOf = (url: unknown) => new URL(String(url)).port;
  const here = (env: { readonly [name: string]: string }, ...args: string[]) =>
    ugs(["ping", "--local", ...args], { env });

  it("calls the port in the settings, over TLS if the settings enable TLS", async () => {
    const { stdout } = await here({ PORT: portOf(servers.plain.url), HOST: "0.0.0.0" });
    expect(stdout).toMatch(new RegExp(`^${servers.plain.url} is ready \\(\\d+ ms\\)\n$`));
    expect((await here({ ...tls, PORT: portOf(servers.tls.url), HOST: "127.0.0.1" })).code).toBe(0);
    expect((await here({ ...tls, PORT: portOf(servers.tls.url) }, "--live")).stdout).toContain("is alive");
    const metrics = portOf(metricsUrlOf(apart));
    expect((await here({ ...mutual, PORT: portOf(apart.url), METRICS_PORT: metrics })).code).toBe(0);
    expect(JSON.parse((await here({ PORT: portOf(servers.plain.url) }, "--json")).stdout)).toEqual({
      status: "SERVING",
    });
  });

  it("reports the cause if the service does not respond, or if a port is not valid", async () => {
    for (const [env, code, words] of [
      [{ PORT: String(await freePort()) }, 6, /ECONNREFUSED\n.*METRICS_PORT/],
      [{ PORT: portOf(servers.tls.url) }, 6, /does not respond/],
      [{ ...mutual, PORT: portOf(servers.mutual.url) }, 6, /client certificate.*METRICS_PORT/],
      [{ PORT: "0" }, 2, /PORT must be a port number/],
      [{ METRICS_PORT: "x" }, 2, /METRICS_PORT must be a port number/],
    ] as const) {
      const run = await here(env);
      expect(run.stderr).toMatch(words);
      expect(run.code).toBe(code);
    }
  });

  it("exits with 6 if the service is not ready for reads", async () => {
    const busy = createServer((_, response) => void response.writeHead(503).end());
    const { port } = new URL(await newListener(busy));
    const { code, stderr } = await here({ PORT: port });
    expect([code, stderr]).toEqual([6, expect.stringContaining("is not ready: reads fail")]);
  });

  it("reports with --changes that the service is ready only for reads", async () => {
    const full = createServer(
      ({ url }, response) => void response.writeHead(url === "/readyz?changes" ? 503 : 200).end(),
    );
    const { port } = new URL(await newListener(full));
    expect((await here({ PORT: port })).code).toBe(0);
    const { code, stderr } = await here({ PORT: port }, "--changes");
    expect([code, stderr]).toEqual([6, expect.stringContaining("is not ready: changes fail")]);
  });
});

describe("ugs without a service", () => {
  it("ugs reports why it cannot reach the service: connection refused, unknown host, timeout, not HTTP, another service", async () => {
    const silent = createTcpServer(() => {});
    const gibberish = createTcpServer((socket) => void socket.on("error", () => {}).end("220 ready\r\n"));
    const page = createServer(
      (_, response) => void response.writeHead(404, { "content-type": "text/html" }).end("<h1>"),
    );
    const nothing = `http://127.0.0.1:${await freePort()}`;
    const [unanswering = "", ...others] = await Promise.all([silent, gibberish, page].map((each) => newListener(each)));
    const pings = ["http://ugs.invalid", nothing, ...others].map((url) => ["ping", "--url", url, "--timeout", "60s"]);
    pings.splice(2, 0, ["ping", "--url", unanswering, "--timeout", "200ms"]);
    const runs = await Promise.all(pings.map((args) => ugs(args)));
    expect(runs.map(({ code }) => code)).toEqual([6, 6, 6, 6, 6]);
    for (const [i, words] of [
      /cannot reach http:\/\/ugs\.invalid: .*\n.*DNS/,
      /nothing listens at 127/,
      /did not answer within 200 ms/,
      /cannot reach .* HTTP\n/,
      /is not the User Group Service/,
    ].entries()) {
      expect(runs[i]?.stderr).toMatch(words);
    }
    expect(runs[4]?.stderr).toMatch(/does not have this call\n {2}check the URL.*older than this ugs/);
  });

  it.each([
    "ping",
    "whoami",
    "group delete acme --yes",
    "token create --role read --name x",
    "env delete acme --yes",
    "keys rotate",
    "export",
  ])("does not accept the JSON of another server as a response: %s", async (command) => {
    const other = createServer(
      (_, response) => void response.writeHead(200, { "content-type": "application/json" }).end('{"message":"ok"}'),
    );
    const env = { UGS_TOKEN: `ugk_${"a".repeat(40)}` };
    const { code, stdout, stderr } = await ugs([...command.split(" "), "--url", await newListener(other)], { env });
    expect({ code, stdout }).toEqual({ code: 6, stdout: "" });
    expect(stderr).toContain("is not the User Group Service");
  });

  it("reports a configured proxy that Node does not use", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const ping = (env: { readonly [name: string]: string }) => ugs(["ping", "--url", url, "--timeout", "60s"], { env });
    const proxy = "http://user:secret-word@proxy.invalid";
    const [set, used] = await Promise.all([
      ping({ HTTPS_PROXY: proxy }),
      ping({ HTTPS_PROXY: proxy, NODE_USE_ENV_PROXY: "1" }),
    ]);
    expect([set.code, set.stderr]).toEqual([6, expect.stringMatching(/proxy of HTTPS_PROXY.*NODE_USE_ENV_PROXY/)]);
    // Node before 24.5 ignores NODE_USE_ENV_PROXY.
    const isKnown = process.allowedNodeEnvironmentFlags.has("--use-env-proxy");
    expect(used.stderr.includes("HTTPS_PROXY")).toBe(!isKnown);
    expect(set.stderr).not.toContain("secret-word");
  });
});

describe("ugs with an invalid command line", () => {
  it.each([
    [["whoami"], {}, /run: ugs login --url URL/],
    [["whoami", "--url", "http://127.0.0.1:1"], {}, /--token-file FILE or UGS_TOKEN/],
    [["ping", "--url", "ftp://x"], {}, /--url must be an http or https URL/],
    [["ping", "--url", "127.0.0.1:8080"], {}, /--url must be an http or https URL/],
    [["ping", "--url", "http://u:secret-word@x"], {}, /--url must not contain a user or a password/],
    [["ping"], { UGS_URL: "x" }, /UGS_URL must be/],
    [["ping", "--url", "http://x", "--timeout", "0s"], {}, /--timeout must be a duration/],
    [["ping", "--url", "http://x"], { UGS_TIMEOUT: "soon" }, /UGS_TIMEOUT must be a duration/],
    [["ping", "--profile", "none"], {}, /the profile none/],
    [["ping", "--profile", "../x"], {}, /the name of a profile/],
    [["env", "list", "--limit", "0"], {}, /must be a whole number/],
    [["env", "lsit"], {}, /unknown command 'lsit' \(Did you mean list\?\)/],
    [["whoami", "more"], {}, /too many arguments/],
    [["whoami", "--token=secret-word"], {}, /arguments: give --token-file FILE or UGS_TOKEN/],
    [["whoami", "--token", "secret-word"], {}, /arguments: give --token-file FILE or UGS_TOKEN/],
  ])("exits with 2 and explains the mistake: %j", async (args, env, words) => {
    const { code, stdout, stderr } = await ugs(args, { env });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(words);
    expect(stderr).not.toContain("secret-word");
    const json = await ugs([...args, "--json"], { env });
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { message: expect.any(String), exitCode: 2 } });
  });
});
