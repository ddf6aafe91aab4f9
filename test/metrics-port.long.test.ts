import { openWire } from "@user-group-service/testing/attacks/wire";
import { envelope, http1, http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { newServer } from "./support/opened.ts";
import { metricsTextOf, metricsUrlOf } from "./support/operations.ts";
import { expectRestError } from "./support/rest-shape.ts";

const OPERATIONS = ["/healthz", "/readyz", "/metrics"];

describe.each(RUNTIMES)("on %s", (runtime) => {
  it("METRICS_PORT serves health and metrics, and the main port does not", async () => {
    const server = await newServer({ runtime, env: { METRICS_PORT: "0", CONSOLE: "off" } });
    const metricsUrl = metricsUrlOf(server);
    expect(metricsUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(new URL(metricsUrl).port).not.toBe(new URL(server.url).port);
    for (const path of OPERATIONS) {
      expect((await http1(metricsUrl, path)).status).toBe(200);
      for (const send of [http1, http2]) {
        expectRestError(await send(server.url, path), { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
      }
    }
    const headers = { authorization: `Token ${server.tokens.customer}` };
    expect((await http1(server.url, "/api/user?user_group_id=a", { headers })).status).toBe(200);
    expect(await metricsTextOf({ url: metricsUrl })).toMatch(/^\w+\{.*GetUserGroup.*\} 1$/m);
    for (const path of ["/api/user?user_group_id=a", "/usergroup.v1.UserGroupService/GetUserGroup", "/"]) {
      const answer = await http1(metricsUrl, path, { headers });
      expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
    }
    expect((await http1(metricsUrl, "/metrics", { method: "POST", body: "{}" })).status).toBe(405);
    expect(await server.stop()).toBe(0);
    await expect(http1(metricsUrl, "/healthz")).rejects.toThrow();
  });

  it.each(["METRICS_PORT", "PORT"])(
    "only the other port accepts more connections if %s has MAX_CONNECTIONS connections",
    async (port) => {
      const server = await newServer({ runtime, env: { METRICS_PORT: "0", MAX_CONNECTIONS: "4" } });
      const operations = [metricsUrlOf(server), "/healthz"] as const;
      const calls = [server.url, "/api/user?user_group_id=a"] as const;
      const [[url, path], [otherUrl, otherPath]] =
        port === "PORT" ? ([calls, operations] as const) : ([operations, calls] as const);
      const headers = { authorization: `Token ${server.tokens.customer}` };
      const sent = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${headers.authorization}\r\n\r\n`;
      const held = await Promise.all(Array.from({ length: 4 }, () => openWire(url)));
      for (const raw of held) raw.push(sent);
      const whole = /^HTTP\/1\.1 200 .*\r\n\r\n(?:ok|\{.*\})\n$/s;
      for (const raw of held) await waitFor("there is a response", () => whole.test(raw.received().toString()));
      // To accept a new connection, the server may close an idle connection. The other connections have just been
      // active, so the server closes the new connection instead.
      const another = await openWire(url);
      another.push(sent);
      await waitFor("the fifth connection is closed", () => another.isClosed);
      expect(another.received()).toHaveLength(0);
      expect(held.map((raw) => raw.isClosed)).toEqual([false, false, false, false]);
      expect((await http1(otherUrl, otherPath, { headers })).status).toBe(200);
      for (const { socket } of held) socket.destroy();
      await expect
        .poll(() => http1(url, path, { headers }).then(({ status }) => status, String), { timeout: 20_000 })
        .toBe(200);
      expect(await server.stop()).toBe(0);
    },
  );

  it.each([
    ["the service offers reflection by default", undefined],
    ["the service does not offer reflection with REFLECTION=off", "off"],
  ])("%s", async (_title, REFLECTION) => {
    const server = await newServer({ runtime, env: { ...(REFLECTION && { REFLECTION }) } });
    for (const version of ["v1", "v1alpha"]) {
      const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`;
      const headers = { "content-type": "application/grpc", te: "trailers" };
      const listServices = envelope(Buffer.from([0x3a, 0]));
      const answer = await http2(server.url, path, { method: "POST", headers, body: listServices });
      const status = answer.trailers["grpc-status"] ?? answer.headers["grpc-status"];
      expect(status).toBe(REFLECTION === "off" ? "12" : "0");
      expect(answer.body.includes("usergroup.v1.UserGroupService")).toBe(REFLECTION !== "off");
    }
    const health = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
    expect((await http1(server.url, "/grpc.health.v1.Health/Check", health)).status).toBe(200);
  });
});
