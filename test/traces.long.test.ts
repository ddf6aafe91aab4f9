import { cpSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Certificates, makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { http1 } from "@user-group-service/testing/http";
import { closeLater, newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, inject, it } from "vitest";
import { bearer } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer, newServerProcess, patient } from "./support/opened.ts";
import { metricOf } from "./support/operations.ts";
import { mountSecrets } from "./support/secret-files.ts";
import type { TestServer } from "./support/server.ts";
import { openTraceCollector, openTricklingCollector } from "./support/trace-collector.ts";

const CALL = "usergroup.v1.UserGroupService/GetUserGroup";

async function newCollector(...args: Parameters<typeof openTraceCollector>) {
  const collector = await openTraceCollector(...args);
  closeLater(() => collector.close());
  return collector;
}

async function newTricklingCollector(): Promise<string> {
  const collector = await openTricklingCollector("HTTP/1.1 200 OK\r\nx-trickles: ");
  closeLater(() => collector.close());
  return collector.url;
}

async function get({ url, tokens }: TestServer, id = "a"): Promise<number> {
  return (await http1(url, `/api/user?user_group_id=${id}`, { headers: bearer(tokens.customer) })).status;
}

describeWithRedis.each(RUNTIMES)("tracing on %s", (runtime) => {
  it("traces come from every worker, and a worker sends its last spans when it exits", async () => {
    const redis = await newRedis();
    const collector = await newCollector();
    const server = await newServer({
      ...{ runtime, redisUrl: redis.url },
      env: { WORKERS: "2", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/some/path?x=y`, LOG_LEVEL: "debug" },
    });
    const workers = () => new Set(server.log().flatMap((line) => (line["trace_id"] ? [line["pid"]] : [])));
    let calls = 0;
    await waitFor("both workers have served a call", async () => {
      expect(await get(server)).toBe(200);
      calls++;
      return workers().size === 2;
    });
    expect(await server.stop()).toBe(0);
    expect(collector.spans().filter(({ name }) => name === CALL)).toHaveLength(calls);
    expect(collector.spans().filter(({ name }) => name === "redis get")).toHaveLength(calls);
    expect(new Set(collector.requests.map(({ path }) => path))).toEqual(new Set(["POST /some/path?x=y"]));
  });

  it("traces report that Redis is unavailable", async () => {
    const redis = await newRedis();
    const collector = await newCollector();
    const server = await newServer({
      ...{ runtime, redisUrl: redis.url },
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, REDIS_TIMEOUT: "500ms" },
    });
    await get(server);
    redis.freeze();
    closeLater(() => redis.thaw());
    expect(await get(server)).toBe(503);
    const spanOf = (name: string) => collector.spans().find((span) => span.name === name && span.status === 2);
    const call = await waitFor("the span of the call arrives", () => spanOf(CALL));
    const child = await waitFor("the span of Redis arrives", () => spanOf("redis get"));
    expect(call.attributes["error.type"]).toBe("unavailable");
    expect(child).toMatchObject({ traceId: call.traceId, parentSpanId: call.spanId });
    expect(Number(child.end - child.start) / 1e6).toBeGreaterThan(450);
    const line = server.log().find(({ msg }) => msg === "call failed");
    expect(line).toMatchObject({ trace_id: call.traceId, span_id: call.spanId });
  });

  it("traces reach a collector with mutual TLS, even after the certificates of both sides are replaced", async () => {
    const [theirs, others] = [inject("certificates"), makeCertificates()];
    closeLater(() => removeCertificates(others));
    const asking = ({ server, ca }: Certificates) => {
      return { cert: server.cert, key: server.key, ca: ca.cert, requestCert: true, rejectUnauthorized: true };
    };
    const collector = await newCollector(undefined, 0, asking(theirs));
    const files = ({ ca, client }: Certificates) => ({ ca: ca.cert, cert: client.cert, key: client.key });
    const mounted = mountSecrets(files(theirs));
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_CERTIFICATE: mounted.pathOf("ca"),
      OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: mounted.pathOf("cert"),
      OTEL_EXPORTER_OTLP_CLIENT_KEY: mounted.pathOf("key"),
    };
    const denoFlags = [`--allow-read=${mounted.folder}`];
    const server = await newServer({ runtime, env, ...(runtime === "deno" && { denoFlags }) });
    expect(await get(server)).toBe(200);
    await waitFor("the span of the call arrives", () => collector.spans().some(({ name }) => name === CALL));
    collector.useTls(asking(others));
    const came = collector.spans().length;
    expect(await get(server)).toBe(200);
    const causes = () => server.log().filter(({ lost }) => lost === "export");
    await waitFor("the service reports that the collector is not trusted", () => causes().length === 1);
    expect(causes()[0]?.["error"]).toMatch(/certificate|issuer/i);
    mounted.swap(files(others));
    await waitFor("all files are used", () => {
      const used = server.log().filter(({ msg }) => msg === "changed files of settings are used");
      return used.flatMap((line) => line["settings"]).length === 3;
    });
    expect(collector.spans()).toHaveLength(came);
    expect(await get(server)).toBe(200);
    await waitFor("spans arrive again", () => collector.spans().length > came);
  });

  it.each([
    ["is unavailable", async () => `http://127.0.0.1:${await freePort()}`],
    ["does not respond", async () => (await newCollector(() => new Promise(() => {}))).url],
    ["responds byte by byte", newTricklingCollector],
  ])("traces affect no call if the collector %s, and lost spans are counted", async (_state, open) => {
    const OTEL_EXPORTER_OTLP_ENDPOINT = await open();
    const server = await newServer({ runtime, env: { OTEL_EXPORTER_OTLP_ENDPOINT } });
    const lost = () => metricOf(server, "ugs_spans_lost_total", { cause: "export" });
    expect(await lost()).toBe(0);
    for (let i = 0; i < 20; i++) expect(await get(server)).toBe(200);
    // The 41 lost spans are the spans of 20 calls, 20 reads, and one creation.
    await waitFor("the lost spans are counted", async () => (await lost()) === 41);
    expect(await get(server)).toBe(200);
    // The log does not report that the spans of the last call are lost, because it reports lost spans only once a
    // minute.
    expect(await server.stop()).toBe(0);
    const warnings = server.log().filter(({ msg }) => msg.startsWith("spans of traces are lost"));
    expect(warnings).toMatchObject([{ level: "warn", lost: "export" }]);
  });
});

describe("tracing", () => {
  it("the start on Deno fails if Deno has no permission to connect to the collector", async () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://192.0.2.1:4318" };
    const server = newServerProcess(patient({ runtime: "deno", env }));
    expect(await server.exited()).toBe(1);
    expect(server.output()).toContain(
      'Deno does not allow 192.0.2.1:4318; add "192.0.2.1:4318" to permissions.default.net in deno.json',
    );
  });

  it("the code of traces is in a file of its own, which the service loads only if a collector is set", async () => {
    const folder = newFolder();
    cpSync(`${ROOT}/dist`, join(folder, "dist"), { recursive: true });
    const files = readdirSync(join(folder, "dist")).filter((name) => name.endsWith(".js"));
    const ofTraces = files.filter((name) =>
      readFileSync(join(folder, "dist", name), "utf8").includes("OTel-OTLP-Exporter"),
    );
    expect(ofTraces).toHaveLength(1);
    for (const name of ofTraces) rmSync(join(folder, "dist", name));
    const start = (env: { readonly [name: string]: string }) =>
      newProcess(startProcess([process.execPath, "dist/main.js"], { cwd: folder, env: { PORT: "0", ...env } }));
    await waitUntilSaid(start({}), "it is ready", (output) => output.includes('"msg":"listening"'));
    const failed = start({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" });
    expect(await failed.exited()).toBe(1);
  });
});
