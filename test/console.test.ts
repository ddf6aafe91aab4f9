import { readFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";
import { http1 } from "@user-group-service/testing/http";
import { ROOT } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { expect, inject, it } from "vitest";
import { newServer, redisUrl } from "./support/opened.ts";
import { metricsUrlOf } from "./support/operations.ts";
import { expectRestError } from "./support/rest-shape.ts";
import { ADMIN_ENV, ADMIN_TOKEN } from "./support/server.ts";

const CSS = "text/css; charset=utf-8";
const SCRIPT = "text/javascript; charset=utf-8";

const NOT_FOUND = { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" };

function getCaller(url: string) {
  const headers = { authorization: `Token ${ADMIN_TOKEN}`, "content-type": "application/json" };
  return http1(url, "/usergroup.admin.v1.AdminService/GetCaller", { method: "POST", headers, body: "{}" });
}

it("the console is served with the embedded store, and its content security policy allows only its own scripts", async () => {
  const { url } = await newServer({ env: ADMIN_ENV });
  expect(await http1(url, "/console")).toMatchObject({ status: 308, headers: { location: "console/" } });
  const page = await http1(url, "/console/");
  expect(page).toMatchObject({ status: 200, headers: { "content-type": "text/html; charset=utf-8" } });
  expect(page.headers["content-security-policy"]).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  );
  expect(page.body.toString()).not.toMatch(/<script>|<style|style=|\son\w+=/);
  let size = page.body.length;
  for (const [name, contentType] of [
    ["console.js", SCRIPT],
    ["console.css", CSS],
  ] as const) {
    const headers = { "accept-encoding": "br" };
    const answer = await http1(url, `/console/${name}`, { headers });
    expect(answer).toMatchObject({ status: 200, headers: { "content-type": contentType, "content-encoding": "br" } });
    expect(brotliDecompressSync(answer.body).equals(readFileSync(`${ROOT}/dist/${name}`)), name).toBe(true);
    size += answer.body.length;
  }
  // The files must be small, so that the console loads over a slow connection.
  expect(size).toBeLessThan(130_000);
});

it.each(RUNTIMES)(
  "if METRICS_PORT is set, only that port serves the console, and both ports serve the RPCs of the console, on %s",
  async (runtime) => {
    const server = await newServer({ runtime, env: { ...ADMIN_ENV, METRICS_PORT: "0" } });
    const metricsUrl = metricsUrlOf(server);
    expect((await http1(metricsUrl, "/console/")).status).toBe(200);
    expect(JSON.parse((await getCaller(metricsUrl)).body.toString())).toMatchObject({ role: "root" });
    expectRestError(await http1(server.url, "/console/"), NOT_FOUND);
    expect((await getCaller(server.url)).status).toBe(200);
    expectRestError(await http1(metricsUrl, "/api/user?user_group_id=a"), NOT_FOUND);
  },
);

it("with CONSOLE=off, the console is not served, and METRICS_PORT serves no RPCs", async () => {
  const server = await newServer({ env: { ...ADMIN_ENV, CONSOLE: "off", METRICS_PORT: "0" } });
  for (const url of [server.url, metricsUrlOf(server)]) expectRestError(await http1(url, "/console/"), NOT_FOUND);
  expect((await getCaller(metricsUrlOf(server))).status).toBe(404);
});

it("the console on a public METRICS_PORT causes a warning, because TLS does not protect that port", async () => {
  const tls = inject("certificates");
  for (const [HOST, CONSOLE, expected] of [
    ["0.0.0.0", "on", [expect.stringMatching(/METRICS_PORT.* TLS.*CONSOLE=off$/)]],
    ["0.0.0.0", "off", []],
    ["127.0.0.1", "on", []],
  ] as const) {
    const server = await newServer({ tls, env: { ...ADMIN_ENV, METRICS_PORT: "0", HOST, CONSOLE } });
    const warnings = server.log().flatMap(({ level, host, msg }) => (level === "warn" && host === HOST ? [msg] : []));
    expect(warnings).toEqual(expected);
  }
});

it.skipIf(redisUrl === undefined)("the console is served with a real Redis only if CONSOLE=on", async () => {
  const unset = await newServer({ redisUrl });
  for (const path of ["/console", "/console/", "/console/console.js"])
    expectRestError(await http1(unset.url, path), NOT_FOUND);
  const on = await newServer({ redisUrl, env: { CONSOLE: "on" } });
  expect((await http1(on.url, "/console/")).status).toBe(200);
});
