import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { newApiToken } from "../src/domain/token.ts";
import { bearer } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";

const REQUESTS = 100;
const TARGET = "/api/user?user_group_id=a";

describeWithRedis.each(RUNTIMES)("while Redis is unavailable, a server on %s", (runtime) => {
  it("logs at most one failed call of unauthenticated callers per error code and minute", async () => {
    const redis = await newRedis();
    const server = await newServer({ runtime, redisUrl: redis.url, env: { REDIS_TIMEOUT: "500ms" } });
    await redis.stop();
    await waitUntilReady(server, false);
    const linesOf = (message: string) => server.log().filter(({ msg }) => msg === message);
    const known = linesOf("call failed").length;
    const lines = server.log().length;
    for (let i = 0; i < REQUESTS; i++) {
      const answers = await Promise.all([
        http1(server.url, `/e/guess${i}/.well-known/jwks.json`),
        http1(server.url, TARGET, { headers: bearer(newApiToken()) }),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([503, 503]);
    }
    await waitFor("the first failure is logged", () => linesOf("call failed").length > known);
    // Except for the first failure, all new lines are about Redis.
    expect(server.log().length - lines).toBeLessThan(20);
    const [first, ...others] = linesOf("call failed").slice(known);
    expect(others).toEqual([]);
    expect(first).toMatchObject({
      level: "warn",
      code: "unavailable",
      error: expect.stringContaining("StoreUnavailable"),
    });
    // Each failed call of an authenticated caller has a log line.
    const headers = bearer(server.tokens.customer);
    for (let i = 0; i < 3; i++) expect((await http1(server.url, TARGET, { headers })).status).toBe(503);
    // The lines arrive through a pipe, shortly after the responses.
    await waitFor("each call has a log line", () => linesOf("call failed").length >= known + 4);
    expect(linesOf("call failed").slice(known + 1)).toHaveLength(3);
  });
});
