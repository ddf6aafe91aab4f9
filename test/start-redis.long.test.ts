import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, inject, it } from "vitest";
import { describeWithRedis, newOperator, newRedis, newServer, newServerProcess } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import type { TestRedis } from "./support/redis.ts";
import { grpcClients } from "./support/rpc.ts";
import { type TestServer, TOKEN_KEYS } from "./support/server.ts";

const OTHER_KEY = Buffer.alloc(32, 8).toString("base64");

describeWithRedis.each(RUNTIMES)("at its start on %s the service", (runtime) => {
  const refused = async (env: { [name: string]: string }) => {
    const server = newServerProcess({ runtime, env: { TOKEN_KEYS, API_TOKENS: "e=0123456789abcdef", ...env } });
    expect(await server.exited()).toBe(1);
    const output = server.output();
    expect(output).not.toMatch(/\n\s+at /);
    // The server reports the problem only once, and logs no connection errors.
    expect(server.log().filter(({ msg }) => msg !== "Redis connection is ready")).toEqual([]);
    return { output };
  };
  const withUser = async (redis: TestRedis, user: string, password: string) => {
    await newOperator(redis).acl("SETUSER", user, "on", "resetpass", `>${password}`, "~*", "&*", "+@all");
    return redis.url.replace("://", `://${user}:${encodeURIComponent(password)}@`);
  };
  const start = (redis: string, env: { [name: string]: string } = {}) => newServer({ runtime, redisUrl: redis, env });
  const warnings = (server: TestServer) => server.log().flatMap(({ level, msg }) => (level === "warn" ? [msg] : []));

  it("rejects a database that Redis does not have, and writes to no other database", async () => {
    const redis = await newRedis();
    const { output } = await refused({ REDIS_URL: `${redis.url}/99` });
    expect(output).toMatch(/cannot use Redis: .*database 99 .*REDIS_URL/);
    // The server must not wait for Redis.
    expect(output).not.toContain("that Redis runs");
    expect(await newOperator(redis).dbsize()).toBe(0);
  });

  it("uses the given database, even after a reconnect", async () => {
    const redis = await newRedis();
    const server = await start(`${redis.url}/3`);
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    const admin = newOperator(redis);
    await admin.client("KILL", "TYPE", "normal", "SKIPME", "yes");
    await waitUntilReady(server);
    expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(false);
    expect(await admin.dbsize()).toBe(0);
    await admin.select(3);
    expect(await admin.dbsize()).toBeGreaterThan(0);
  });

  it.each([
    [
      "a wrong password",
      "user-of-the-test:wrong-password-0001@",
      /cannot use Redis: .*REDIS_URL or REDIS_PASSWORD_FILE .*WRONGPASS/,
    ],
    ["a missing password", "", /cannot use Redis: .*REDIS_URL as redis:\/\/:PASSWORD@HOST/],
  ])("fails without retries for %s", async (_, credentials, text) => {
    const redis = await newRedis();
    await withUser(redis, "user-of-the-test", "right-password-0001");
    const admin = newOperator(redis);
    await admin.config("SET", "requirepass", "another-password-0001");
    const { output } = await refused({ REDIS_URL: redis.url.replace("://", `://${credentials}`) });
    expect(output).toMatch(text);
    expect(output).not.toMatch(/user-of-the-test|password-0001/);
    // The server must not wait for Redis.
    expect(output).not.toContain("that Redis runs");
  });

  it("reports the scheme rediss:// if REDIS_URL has redis:// but Redis uses TLS", async () => {
    const { server, ca } = inject("certificates");
    const port = await freePort();
    const files = [
      "--tls-cert-file",
      server.certFile,
      "--tls-key-file",
      server.keyFile,
      "--tls-ca-cert-file",
      ca.certFile,
    ];
    await newRedis(["--tls-port", String(port), ...files, "--tls-auth-clients", "no"]);
    const { output } = await refused({ REDIS_URL: `redis://127.0.0.1:${port}` });
    expect(output).toMatch(/cannot use Redis: .*rediss:\/\//);
  });

  it("distinguishes a user without sufficient rights from a wrong password", async () => {
    const redis = await newRedis();
    const url = await withUser(redis, "narrow", "narrow-password");
    await newOperator(redis).acl("SETUSER", "narrow", "-time");
    const { output } = await refused({ REDIS_URL: url });
    expect(output).toMatch(/cannot use Redis: the user in REDIS_URL lacks rights .*ACL SETUSER NAME \+time\n/);
  });

  it("logs neither the user nor the password of Redis, but still logs a message or level with the same text", async () => {
    const redis = await newRedis();
    for (const [user, password] of [
      ["listening", "info"],
      ["u%er name", "p?#/@:%word"],
    ] as const) {
      const url = (await withUser(redis, user.replace(/[% ]/g, "_"), password)).replace("u_er_name", "u_er_name");
      const server = await start(url, { LOG_LEVEL: "trace" });
      await grpcClients(server).groups.getUserGroup({ userGroupId: "a" });
      await redis.kill();
      await waitFor("the failed connection is logged", () =>
        server.log().some(({ msg }) => msg === "Redis connection failed"),
      );
      await redis.restart();
      for (const { level } of server.log()) expect(["trace", "debug", "info", "warn", "error"]).toContain(level);
      expect(server.log().some(({ msg }) => msg === "listening")).toBe(true);
      if (password !== "info") expect(server.output()).not.toMatch(/u_er_name|p\?#|p%3F%23/);
      expect(server.output()).not.toContain("[redacted]");
      expect(await server.stop()).toBe(0);
    }
  });

  it("rejects keys that do not match the stored data, and reports the remedy", async () => {
    const redis = await newRedis();
    const { groups } = grpcClients(await start(redis.url));
    await groups.getUserGroup({ userGroupId: "a" });
    const wrong = await refused({ REDIS_URL: redis.url, TOKEN_KEYS: `test:${OTHER_KEY}` });
    expect(wrong.output).toMatch(/cannot use Redis: TOKEN_KEYS has another secret for the id test than/);
    const none = await refused({ REDIS_URL: redis.url, TOKEN_KEYS: `new:${OTHER_KEY}` });
    expect(none.output).toMatch(
      /cannot use Redis: TOKEN_KEYS has none of the keys .*\(test\); add the old keys after the new key/,
    );
    // A server starts if the old key is the second key of TOKEN_KEYS. After that, a process that has only the old key
    // must not start.
    await start(redis.url, { TOKEN_KEYS: `new:${OTHER_KEY},${TOKEN_KEYS}` });
    const behind = await refused({ REDIS_URL: redis.url, TOKEN_KEYS });
    expect(behind.output).toMatch(/cannot use Redis: TOKEN_KEYS lacks new, which another worker uses or used/);
  });

  it("records the layout of the data, and rejects data of another layout or without a layout", async () => {
    const redis = await newRedis();
    const operator = newOperator(redis);
    const env = { REDIS_URL: redis.url };
    // All servers start at the same time with an empty Redis.
    const first = await Promise.all(Array.from({ length: 3 }, () => start(redis.url)));
    expect(await operator.get("ug:format")).toMatch(/^3 [0-9a-f]{16}$/);
    for (const server of first) await server.stop();
    for (const [layout, text] of [
      ["2", /cannot use Redis: .*an earlier release .*layout 2, .*REDIS_URL.*ExportUserGroups/],
      ["4", /cannot use Redis: .*a later release .*layout 4, .*REDIS_URL.*ExportUserGroups/],
    ] as const) {
      await operator.set("ug:format", layout);
      expect((await refused(env)).output).toMatch(text);
      expect(await operator.get("ug:format")).toBe(layout);
    }
    await operator.del("ug:format");
    expect((await refused(env)).output).toMatch(/an earlier release .*layout 1/);
    expect(await operator.exists("ug:format")).toBe(0);
    // The server must also reject data that contains only records of environments. The first layout had such records.
    await operator.flushall();
    await operator.hset("ug:env:acme/Customer", "partitions", "64");
    expect((await refused(env)).output).toMatch(/an earlier release .*layout 1/);
    await operator.del("ug:env:acme/Customer");
    await operator.set("ug:format", "3");
    await start(redis.url);
  });

  it("logs a warning only if Redis may evict data or has no persistence", async () => {
    const careless = await start((await newRedis(["--maxmemory-policy", "allkeys-lru"])).url);
    expect(warnings(careless)).toEqual([
      expect.stringMatching(/maxmemory-policy is allkeys-lru.*noeviction/),
      expect.stringMatching(/disk.*appendonly/),
    ]);
    for (const args of [
      ["--appendonly", "yes"],
      ["--save", "3600 1"],
    ]) {
      expect(warnings(await start((await newRedis(args)).url))).toEqual([]);
    }
  });

  it("logs once that a higher hash-max-listpack-value saves memory, if the value is low", async () => {
    for (const [value, count] of [
      ["64", 1],
      ["1024", 0],
    ] as const) {
      const redis = await newRedis(["--appendonly", "yes", "--hash-max-listpack-value", value]);
      const server = await start(redis.url);
      expect(server.log().filter(({ msg }) => msg.includes("hash-max-listpack-value"))).toHaveLength(count);
    }
  });

  it("starts without the right to read the configuration of Redis", async () => {
    const redis = await newRedis(["--appendonly", "yes"]);
    const url = await withUser(redis, "narrow", "narrow-password");
    await newOperator(redis).acl("SETUSER", "narrow", "-config", "-info");
    const server = await start(url);
    expect(warnings(server)).toEqual([]);
    expect((await grpcClients(server).groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(true);
  });

  it("logs a warning if HOST is public and TLS is off", async () => {
    const redis = await newRedis(["--appendonly", "yes"]);
    const warning = expect.stringMatching(/HOST without TLS.*TLS_CERT_FILE/);
    for (const [host, expected] of [
      ["0.0.0.0", [warning]],
      ["127.0.0.1", []],
    ] as const) {
      const options = { runtime, redisUrl: redis.url, env: { HOST: host } };
      const server = await newServer({ ...options, denoFlags: ["--allow-net"] });
      expect(warnings(server)).toEqual(expected);
    }
  });
});

describeWithRedis("an IPv6 address in REDIS_URL", () => {
  it("a Redis at an IPv6 address can be used", async () => {
    const redis = await newRedis(["--bind", "127.0.0.1", "::1"]);
    const server = await newServer({ redisUrl: `redis://[::1]:${redis.port}` });
    expect((await grpcClients(server).groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(true);
  });
});
