import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { closeLater, newListener } from "@user-group-service/testing/opened";
import { freePort } from "@user-group-service/testing/wait";
import { expect, inject, it } from "vitest";
import { StoreUnavailable } from "../src/domain/errors.ts";
import { StoreMisconfigured } from "../src/store/connection/errors.ts";
import { type OpenOptions, openRedis } from "./support/open-redis.ts";
import {
  describeWithRedis,
  newCluster,
  newOperator,
  newRedis,
  newSentinels,
  newServer,
  newStoreClient,
} from "./support/opened.ts";
import { MASTER, startSentinel } from "./support/redis-sentinel.ts";
import { grpcClients } from "./support/rpc.ts";

/** Short timeouts. If Redis does not respond, the test waits for the whole timeout. */
const BRIEFLY = { timeoutMs: 500, connectMs: 2000 };

/**
 * Returns the reason why the service cannot use a Redis. If the service can use the Redis, returns `opened`. The
 * default timeouts are long, so that commands do not time out on a busy machine.
 */
async function fault(url: string, options: Partial<OpenOptions> = {}) {
  const patiently = { timeoutMs: 10_000, connectMs: 60_000 };
  const opened = await openRedis(url, { ...patiently, ...options }).catch((error: unknown) => error);
  if (opened instanceof StoreMisconfigured) return `misconfigured: ${opened.message}`;
  if (opened instanceof StoreUnavailable) return `unavailable: ${(opened.cause as Error).message}`;
  closeLater(() => (opened as { close(): void }).close());
  return "opened";
}

it.concurrent.each(["redis", "redis-sentinel", "redis-cluster", "rediss-cluster"])(
  "openRedis fails with an error that names the %s:// address, if the address refuses connections",
  async (scheme) => {
    const port = await freePort();
    const end = scheme === "redis-sentinel" ? "/0#m" : "";
    expect(await fault(`${scheme}://127.0.0.1:${port}${end}`, BRIEFLY)).toMatch(
      new RegExp(
        `^unavailable: .*ECONNREFUSED.*127.0.0.1:${port}|^unavailable: no Sentinel answered.*127.0.0.1:${port}: .*ECONNREFUSED|^unavailable: Sentinel 127.0.0.1:${port}: .*ECONNREFUSED`,
      ),
    );
  },
);

it("openRedis reports an address that does not respond as unavailable", async () => {
  const { port } = new URL(await newListener(createServer(() => {})));
  const urls = [
    `redis://127.0.0.1:${port}`,
    `redis-cluster://127.0.0.1:${port}`,
    `redis-sentinel://127.0.0.1:${port}#m`,
  ];
  for (const each of await Promise.all(urls.map((url) => fault(url, BRIEFLY)))) {
    expect(each).toMatch(/^unavailable: /);
  }
});

describeWithRedis("wrong schemes of REDIS_URL", () => {
  it("openRedis names the correct scheme if REDIS_URL names a Cluster, but Redis is one node", async () => {
    const redis = await newRedis();
    expect(await fault(redis.url.replace("redis:", "redis-cluster:"))).toMatch(
      /^misconfigured: .*begin REDIS_URL with redis:\/\//,
    );
  });

  it("a failed call names the correct scheme if REDIS_URL names one node, but Redis is a Cluster", async () => {
    const cluster = await newCluster();
    const url = `redis://127.0.0.1:${cluster.nodes[0]?.port}`;
    const client = await newStoreClient({ url });
    const causes = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        client.run("get", "hgetall", [`${i}`]).then(
          () => "",
          (error: StoreUnavailable) => String(error.cause),
        ),
      ),
    );
    expect(causes.find((cause) => cause !== "")).toMatch(/node of a Cluster: begin REDIS_URL with redis-cluster:\/\//);
  });
});

describeWithRedis("Sentinels", () => {
  it("Sentinels receive the configured password, and an unknown master name is reported", async () => {
    const sentinels = await newSentinels({ password: "secret-of-sentinels" });
    expect(await fault(sentinels.url)).toMatch(/^misconfigured: .*REDIS_SENTINEL_PASSWORD/);
    const wrong = await fault(sentinels.url, { sentinelPassword: "another-secret-0001" });
    expect(wrong).toMatch(/^misconfigured: .*REDIS_SENTINEL_PASSWORD/);
    expect(wrong).not.toContain("another-secret");
    const sentinelPassword = "secret-of-sentinels";
    expect(await fault(sentinels.url, { sentinelPassword })).toBe("opened");
    // No Sentinel listens on the first address of this URL.
    const withStranger = sentinels.url.replace("://", `://127.0.0.1:${await freePort()},`);
    expect(await fault(withStranger, { sentinelPassword })).toBe("opened");
    expect(await fault(sentinels.url.replace(`#${MASTER}`, "#another"), { sentinelPassword })).toMatch(
      /^misconfigured: .*master another/,
    );
    expect(await fault(sentinels.url.replace("/0#", "/99#"), { sentinelPassword })).toMatch(
      /^misconfigured: .*database 99/,
    );
  });
});

describeWithRedis("with TLS and REDIS_CA_FILE", () => {
  const { server, ca } = inject("certificates") as unknown as {
    server: { certFile: string; keyFile: string };
    ca: { certFile: string };
  };
  const args = (port: number) => [
    ...["--tls-port", String(port), "--tls-cert-file", server.certFile, "--tls-key-file", server.keyFile],
    ...["--tls-ca-cert-file", ca.certFile, "--tls-auth-clients", "no"],
  ];

  it("the service connects to every node of a Cluster", async () => {
    const ports = await Promise.all(Array.from({ length: 6 }, freePort));
    const cluster = await newCluster({
      argsOf: (i) => [...args(ports[i] ?? 0), "--tls-cluster", "yes", "--tls-replication", "yes"],
    });
    const url = `rediss-cluster://127.0.0.1:${ports[0]}`;
    expect(await fault(url, BRIEFLY)).toMatch(/^unavailable: .*certificate/);
    const options = { timeoutMs: 60_000, minReplicas: 1, ca: readFileSync(ca.certFile, "utf8") };
    const client = await newStoreClient({ url }, options);
    expect(
      client.nodes
        .masters()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(
      ports
        .slice(0, 3)
        .map((port) => `127.0.0.1:${port}`)
        .sort(),
    );
    await client.check("reads");
    await cluster.whole();
  });

  it("the service connects to a master with Sentinels", async () => {
    const [masterPort, sentinelPort] = [await freePort(), await freePort()];
    await newRedis(args(masterPort));
    const settings = [...optionLines(args(sentinelPort)), "tls-replication yes"];
    const sentinel = await startSentinel(masterPort, {}, settings);
    closeLater(() => sentinel.stop());
    const url = `rediss-sentinel://127.0.0.1:${sentinelPort}/0#${MASTER}`;
    expect(await fault(url, BRIEFLY)).toMatch(/^unavailable: .*certificate/);
    const env = { REDIS_CA_FILE: ca.certFile };
    const { groups } = grpcClients(await newServer({ redisUrl: url, env }));
    expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(true);
  });

  it.each(["redis", "redis-sentinel", "redis-cluster"])(
    "the error names the correct scheme if REDIS_URL has %s for a TLS port, or its TLS variant for a plain port",
    async (scheme) => {
      const [port, withTls] = [await freePort(), scheme.replace("redis", "rediss")];
      const plain =
        scheme === "redis-sentinel"
          ? await startSentinel((await newRedis()).port, {}, optionLines(args(port)))
          : await newRedis([...args(port), ...(scheme === "redis-cluster" ? ["--cluster-enabled", "yes"] : [])]);
      closeLater(() => plain.stop());
      const end = scheme === "redis-sentinel" ? `/0#${MASTER}` : "";
      expect(await fault(`${scheme}://127.0.0.1:${port}${end}`)).toMatch(
        new RegExp(`^misconfigured: .*127.0.0.1:${port} .*TLS.*${withTls}://`),
      );
      expect(await fault(`${withTls}://127.0.0.1:${plain.port}${end}`)).toMatch(
        new RegExp(`^misconfigured: .*127.0.0.1:${plain.port} .*TLS.*${scheme}://`),
      );
    },
  );

  it("the service connects to a single node, and rejects each connection without the CA", async () => {
    const port = await freePort();
    await newRedis(args(port));
    const url = `rediss://127.0.0.1:${port}`;
    expect(await fault(url, BRIEFLY)).toMatch(/^unavailable: .*certificate/);
    // An unhandled error of one of the sockets would end the process.
    const tries = Array.from({ length: 40 }, () => openRedis(url, { timeoutMs: 500, connectMs: 500 }));
    for (const each of await Promise.allSettled(tries)) expect(each.status).toBe("rejected");
    const env = { REDIS_CA_FILE: ca.certFile };
    const { groups } = grpcClients(await newServer({ redisUrl: url, env }));
    expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(true);
  });
});

const BREAKS: { readonly [how: string]: (socket: Socket) => unknown } = {
  "closes connections immediately": (socket) => socket.destroy(),
  "closes connections at the first command": (socket) => socket.once("data", () => socket.end()),
  "resets connections at the first command": (socket) => socket.once("data", () => socket.resetAndDestroy()),
};

it.each(Object.entries(BREAKS))("openRedis names no options of ioredis if the host %s", async (_, end) => {
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    end(socket);
  });
  const { port } = new URL(await newListener(listener));
  closeLater(() => {
    for (const socket of sockets) socket.destroy();
  });
  const schemes = ["redis", "rediss", "redis-cluster", "redis-sentinel"];
  const faults = await Promise.all(
    schemes.map((scheme) => fault(`${scheme}://127.0.0.1:${port}${scheme.endsWith("sentinel") ? "#m" : ""}`, BRIEFLY)),
  );
  for (const each of faults) {
    expect(each).toMatch(/^unavailable: .*(?:before Redis answered|ECONNRESET|EPIPE|disconnected before)/);
    // The error must not name options of ioredis, because an operator cannot set them.
    expect(each).not.toMatch(/maxRetriesPerRequest|enableOfflineQueue|writeable/);
  }
});

describeWithRedis("the password of the nodes", () => {
  it("the password is used on every node of a Cluster, and a wrong password is reported", async () => {
    const cluster = await newCluster();
    await Promise.all(
      cluster.nodes.map(async (node) => {
        const operator = newOperator(node);
        await operator.config("SET", "masterauth", "right-password");
        await operator.config("SET", "requirepass", "right-password");
      }),
    );
    expect(await fault(cluster.url)).toMatch(/^misconfigured: .*NOAUTH/);
    expect(await fault(cluster.url.replace("://", "://:wrong-password@"))).toMatch(
      /^misconfigured: Redis refuses the user or password/,
    );
    expect(await fault(cluster.url.replace("://", "://:right-password@"))).toBe("opened");
  });
});

function optionLines(options: readonly string[]): string[] {
  return options.join(" ").split("--").slice(1);
}
