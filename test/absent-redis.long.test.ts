import { createServer } from "node:net";
import { ConnectError } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { newListener } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { describeWithRedis, newOperator, newProxy, newRedis, newServerProcess } from "./support/opened.ts";
import { healthOf, metricsOf, waitUntilReady } from "./support/operations.ts";
import { DURABLE } from "./support/redis.ts";
import { grpcClients, succeeds } from "./support/rpc.ts";
import { type ServerProcess, tokenKey } from "./support/server.ts";

const TOKEN = "0123456789abcdef";

describeWithRedis.each(RUNTIMES)("a server on %s that starts without Redis", (runtime) => {
  const launched = async (redisUrl: string, env: { [name: string]: string } = {}) => {
    const port = await freePort();
    const settings = { PORT: String(port), API_TOKENS: `e=${TOKEN}`, LOG_LEVEL: "debug", REDIS_TIMEOUT: "1s" };
    const server = newServerProcess({ runtime, redisUrl, env: { ...settings, ...env } });
    const tokens = { customer: TOKEN, testing: "", untagged: "" };
    return { ...server, tokens, url: `http://127.0.0.1:${port}` };
  };
  const says = (server: ServerProcess, text: string) => server.log().filter(({ msg }) => msg.startsWith(text));
  const isAlive = (server: ServerProcess & { url: string }) =>
    waitFor(
      "the server is alive",
      async () => (await http1(server.url, "/healthz").catch(() => undefined))?.status === 200,
    );
  const absentRedis = async () => {
    const redis = await newRedis(["--appendonly", "yes"]);
    await redis.kill();
    return redis;
  };

  it.each([1, 3])(
    "the server responds to /healthz, logs once that it waits for Redis, and serves calls after Redis starts (WORKERS=%i)",
    async (workers) => {
      const redis = await absentRedis();
      const server = await launched(redis.url, { WORKERS: String(workers) });
      await isAlive(server);
      await waitUntilReady(server, false);
      await waitUntilReady(server, false, "changes");
      expect((await healthOf(server).check({})).status).toBe(Status.NOT_SERVING);
      const { groups } = grpcClients(server);
      const failure = await groups
        .getUserGroup({ userGroupId: "a" })
        .catch((error: unknown) => ConnectError.from(error));
      expect((failure as ConnectError).findDetails(ErrorInfoSchema)[0]).toMatchObject({
        reason: "STORE_UNAVAILABLE",
        metadata: { outcome: "not_made" },
      });
      if (workers > 1)
        await waitFor(
          "no worker is ready",
          async () => (await metricsOf(server))("ugs_ready", { kind: "reads" }) === 0,
        );
      expect((await metricsOf(server))("ugs_ready", { kind: "reads" })).toBe(0);
      expect(says(server, "waiting for Redis")).toMatchObject([{ error: expect.stringContaining("ECONNREFUSED") }]);
      expect(says(server, "listening")).toEqual([]);
      await redis.restart();
      await waitFor("the server is ready", () => says(server, "listening").length === 1);
      const again = says(server, "Redis connection failed").filter(({ error }) => String(error).includes("REFUSED"));
      expect(again).toEqual([]);
      await waitUntilReady(server);
      await waitFor("groups are created", () => succeeds(groups.getUserGroup({ userGroupId: "a" })));
      server.signal("SIGTERM");
      expect(await server.exited()).toBe(0);
    },
  );

  it.each([
    ["the password is wrong", {}, /refuses the user or password/],
    [
      "TOKEN_KEYS has another secret for a known id",
      { TOKEN_KEYS: tokenKey("test", 8) },
      /TOKEN_KEYS has another secret for the id test than/,
    ],
    ["the data has an unsupported layout", {}, /layout 99/],
  ])("exits after Redis has started if %s", async (what, env: { [name: string]: string }, text) => {
    const password = "right-password-0001";
    const redis = await newRedis(DURABLE);
    const before = await launched(redis.url);
    await waitFor("the server is ready", () => says(before, "listening").length === 1);
    await before.stop();
    if (what === "the data has an unsupported layout") await newOperator(redis).set("ug:format", "99");
    await redis.kill();
    const isWrong = what === "the password is wrong";
    const server = await launched(isWrong ? redis.url.replace("://", "://:wrong-password-0001@") : redis.url, env);
    await isAlive(server);
    await redis.restart(isWrong ? ["--requirepass", password] : []);
    expect(await server.exited()).toBe(1);
    expect(server.output()).toMatch(text);
    expect(server.output()).not.toMatch(/\n\s+at /);
    expect(says(server, "listening")).toEqual([]);
  });

  it("the server is not ready while Redis hangs during the data check, and exits if the check then fails", async () => {
    const redis = await newRedis();
    const before = await launched(redis.url);
    await waitFor("the server is ready", () => says(before, "listening").length === 1);
    await before.stop();
    const proxy = await newProxy(redis);
    proxy.holdFrom("ug:token-keys");
    const server = await launched(proxy.url, { TOKEN_KEYS: tokenKey("test", 8) });
    await waitFor("the check of the data fails", () => says(server, "Redis did not answer the check").length > 0);
    await isAlive(server);
    await waitUntilReady(server, false);
    proxy.allow(Number.POSITIVE_INFINITY);
    expect(await server.exited()).toBe(1);
    expect(server.output()).toMatch(/TOKEN_KEYS has another secret for the id test than/);
    expect(says(server, "listening")).toEqual([]);
  });

  it("logs each connection error once while Redis does not respond", async () => {
    const redis = await newRedis();
    const proxy = await newProxy(redis);
    let tries = 0;
    const silent = await newListener(createServer(() => void tries++));
    const server = await launched(proxy.url);
    await waitFor("the server is ready", () => says(server, "listening").length === 1);
    proxy.switchTo(Number(new URL(silent).port));
    await redis.kill();
    await waitFor("the server has tried to connect six times", () => tries >= 6, 30_000);
    const errors = says(server, "Redis connection failed").map(({ error }) => error);
    expect(errors.length).toBeGreaterThan(0);
    expect(errors).toEqual([...new Set(errors)]);
  });

  it("the server exits on a signal while it waits for Redis", async () => {
    const server = await launched((await absentRedis()).url);
    await isAlive(server);
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
  });
});
