import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { closeLater } from "@user-group-service/testing/opened";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, inject, it } from "vitest";
import { ADMIN_TOKEN, adminOf } from "./support/admin.ts";
import { describeWithRedis, newCluster, newRedis, newSentinels, newServer } from "./support/opened.ts";
import { ask, type TestRedis } from "./support/redis.ts";
import { grpcClients, succeeds } from "./support/rpc.ts";
import { mountSecrets } from "./support/secret-files.ts";
import type { TestServer } from "./support/server.ts";

const [BEFORE, AFTER] = ["password-before", "password-after"];

const newUser = ["ACL", "SETUSER", "user-groups", "on", `>${BEFORE}`, "~*", "&*", "+@all"] as const;

const alsoAfter = ["ACL", "SETUSER", "user-groups", `>${AFTER}`] as const;
const notBefore = ["ACL", "SETUSER", "user-groups", `<${BEFORE}`] as const;
const endConnections = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"] as const;

const askAll = (nodes: readonly Pick<TestRedis, "port">[], [command, ...args]: readonly [string, ...string[]]) =>
  Promise.all(nodes.map((node) => ask(node, command, ...args)));

const reported = (server: TestServer, setting: string, msg: "are used" | "previous content") =>
  server.log().filter((line) => line.msg.endsWith(msg) && (line["settings"] as string[]).includes(setting)).length;

/** Makes a change, and waits until the server uses or rejects the file of a setting. */
async function waitForReload(
  server: TestServer,
  [setting, msg]: readonly [string, "are used" | "previous content"],
  change: () => unknown,
): Promise<void> {
  const before = reported(server, setting, msg);
  await change();
  await waitFor(`${setting}: ${msg}`, () => reported(server, setting, msg) > before);
}

/** Creates groups in every shard. */
async function useAll(server: TestServer): Promise<void> {
  const { groups } = grpcClients(server);
  const made = Array.from({ length: 40 }, () => groups.getUserGroup({ userGroupId: crypto.randomUUID() }));
  for (const { newUserGroup } of await Promise.all(made)) expect(newUserGroup).toBe(true);
}

/** Waits until calls succeed after all Redis connections were closed. */
async function usedAgain(server: TestServer): Promise<void> {
  await waitFor("all nodes of Redis respond", () => succeeds(useAll(server)));
}

/**
 * Changes the password of the Redis user, first in the file and then in the nodes. The server rejects the file until
 * the nodes have the new password.
 */
async function changePassword(server: TestServer, nodes: readonly TestRedis[], swap: (text: string) => void) {
  const setting = "REDIS_PASSWORD_FILE";
  await useAll(server);
  await waitForReload(server, [setting, "previous content"], () => swap(AFTER ?? ""));
  const [refusal] = server.log().filter(({ msg }) => msg.endsWith("previous content"));
  expect(refusal?.["error"]).toMatch(/WRONGPASS/);
  await useAll(server);
  await waitForReload(server, [setting, "are used"], () => askAll(nodes, alsoAfter));
  await askAll(nodes, notBefore);
  await useAll(server);
  await askAll(nodes, endConnections);
  await usedAgain(server);
  expect(server.output()).not.toContain("password-");
}

describeWithRedis("the Redis password in a file", () => {
  it("a password change of a Cluster takes effect without a restart", async () => {
    const cluster = await newCluster();
    await askAll(cluster.nodes, newUser);
    const mounted = mountSecrets({ password: BEFORE ?? "" });
    const env = { REDIS_PASSWORD_FILE: mounted.pathOf("password") };
    const server = await newServer({ redisUrl: cluster.url.replace("://", "://user-groups@"), env });
    await changePassword(server, cluster.nodes, (password) => mounted.swap({ password }));
  });

  it("password changes of Redis and of its Sentinels take effect without a restart", async () => {
    const sentinels = await newSentinels({ password: "password-of-sentinels" });
    await askAll(sentinels.nodes, newUser);
    const mounted = mountSecrets({ password: BEFORE ?? "", sentinel: "password-of-sentinels" });
    const env = {
      REDIS_PASSWORD_FILE: mounted.pathOf("password"),
      REDIS_SENTINEL_PASSWORD_FILE: mounted.pathOf("sentinel"),
    };
    const server = await newServer({ redisUrl: sentinels.url.replace("://", "://user-groups@"), env });
    await changePassword(server, sentinels.nodes, (password) => mounted.swap({ password }));

    const places = [...sentinels.url.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => ({ port: Number(port) }));
    const askSentinels = (password: string, words: readonly [string, ...string[]]) =>
      askAll(
        places.map((place) => ({ ...place, password })),
        words,
      );
    await askSentinels("password-of-sentinels", ["ACL", "SETUSER", "default", ">password-new"]);
    await waitForReload(server, ["REDIS_SENTINEL_PASSWORD_FILE", "are used"], () =>
      mounted.swap({ sentinel: "password-new" }),
    );
    await askSentinels("password-new", ["ACL", "SETUSER", "default", "<password-of-sentinels"]);
    await askSentinels("password-new", ["CLIENT", "KILL", "TYPE", "pubsub"]);
    await waitFor("every Sentinel has its subscription again", async () => {
      const lists = await askSentinels("password-new", ["CLIENT", "LIST", "TYPE", "pubsub"]);
      return lists.every((list) => String(list).includes("cmd=subscribe"));
    });
    await askAll(sentinels.nodes, endConnections);
    await usedAgain(server);
    expect(server.output()).not.toContain("password-");
  });

  it("a password change takes effect after Redis has hung, and the hang does not delay the change of another file", async () => {
    const redis = await newRedis();
    await askAll([redis], newUser);
    const mounted = mountSecrets({ password: BEFORE ?? "", admin: ADMIN_TOKEN });
    const env = {
      // This timeout must be longer than the check of the new password. Otherwise, the server would close the silent
      // connection before the check ends.
      REDIS_TIMEOUT: "10s",
      REDIS_PASSWORD_FILE: mounted.pathOf("password"),
      ADMIN_TOKEN_FILE: mounted.pathOf("admin"),
    };
    const server = await newServer({ redisUrl: redis.url.replace("://", "://user-groups@"), env });
    await usedAgain(server);
    await askAll([redis], alsoAfter);
    redis.freeze();
    closeLater(() => redis.thaw());
    const another = `another-${ADMIN_TOKEN}`;
    await waitForReload(server, ["ADMIN_TOKEN_FILE", "are used"], () =>
      mounted.swap({ password: AFTER ?? "", admin: another }),
    );
    expect(await adminOf(server.url, another).getCaller({})).toMatchObject({ role: "root" });
    await waitFor("the old password stays", () => reported(server, "REDIS_PASSWORD_FILE", "previous content") > 0);
    const [silence] = server.log().filter(({ msg }) => msg.endsWith("previous content"));
    expect(silence?.["error"]).toMatch(/no answer to the new password/);
    redis.thaw();
    await waitFor("the new password is used", () => reported(server, "REDIS_PASSWORD_FILE", "are used") > 0);
    await askAll([redis], notBefore);
    await askAll([redis], endConnections);
    await usedAgain(server);
  });
});

describeWithRedis("the CA file of Redis", () => {
  it("a changed CA file takes effect without a restart when Redis gets a certificate of another CA", async () => {
    const [theirs, others] = [inject("certificates"), makeCertificates()];
    closeLater(() => removeCertificates(others));
    const port = await freePort();
    const files = ({ server, ca }: typeof theirs) => [
      ...["tls-cert-file", server.certFile, "tls-key-file", server.keyFile, "tls-ca-cert-file", ca.certFile],
    ];
    const [certFile = "", cert = "", keyFile = "", key = "", caFile = "", ca = ""] = files(theirs);
    const args = [`--${certFile}`, cert, `--${keyFile}`, key, `--${caFile}`, ca, "--tls-auth-clients", "no"];
    const redis = await newRedis(["--tls-port", String(port), ...args]);
    const mounted = mountSecrets({ ca: theirs.ca.cert });
    const env = { REDIS_CA_FILE: mounted.pathOf("ca") };
    const server = await newServer({ redisUrl: `rediss://127.0.0.1:${port}`, env });
    await useAll(server);
    const setting = "REDIS_CA_FILE";
    await waitForReload(server, [setting, "previous content"], () => mounted.swap({ ca: "no certificate" }));
    await waitForReload(server, [setting, "are used"], () => mounted.swap({ ca: theirs.ca.cert + others.ca.cert }));
    await askAll([redis], ["CONFIG", "SET", ...files(others)]);
    await askAll([redis], endConnections);
    await usedAgain(server);
    await waitForReload(server, [setting, "are used"], () => mounted.swap({ ca: others.ca.cert }));
    // Give Redis a certificate that the server does not trust any more.
    await askAll([redis], ["CONFIG", "SET", ...files(theirs)]);
    await askAll([redis], endConnections);
    await waitFor("the certificate is not trusted", () =>
      server.log().some(({ msg, error }) => msg === "Redis connection failed" && /certificate/.test(String(error))),
    );
    await askAll([redis], ["CONFIG", "SET", ...files(others)]);
    await usedAgain(server);
  });
});
