import { createServer } from "node:http";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { newListener } from "@user-group-service/testing/opened";
import { expect, it } from "vitest";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ADMIN_ENV, adminOf, customerOf } from "../../../test/support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer, newServerProcess } from "../../../test/support/opened.ts";
import { grpcClients } from "../../../test/support/rpc.ts";
import type { TestServer } from "../../../test/support/server.ts";
import { tokenKey } from "../../../test/support/server.ts";
import { newGate, refuseRate } from "./support/gate.ts";
import { asRoot, jsonLinesIn, ugs, ugsBuilt } from "./support/ugs.ts";

const [OLD, NEW] = [tokenKey("old", 1), tokenKey("new", 2)];

it("ugs keys generate creates a random key for TOKEN_KEYS without a service", async () => {
  const made = await Promise.all([ugsBuilt(["keys", "generate"]), ugs(["keys", "generate", "--id", "k2"])]);
  expect(made.map(({ code, stderr }) => [code, stderr])).toEqual([
    [0, ""],
    [0, ""],
  ]);
  expect(made[0]?.stdout).toMatch(/^k\d{8}-[0-9a-f]{4}:[A-Za-z0-9+/]{43}=\n$/);
  expect(made[1]?.stdout).toMatch(/^k2:[A-Za-z0-9+/]{43}=\n$/);
  expect(made[0]?.stdout.split(":")[1]).not.toBe(made[1]?.stdout.split(":")[1]);
  const refused = await ugs(["keys", "generate", "--id", "a:b"]);
  expect([refused.code, refused.stdout]).toEqual([2, ""]);
});

it("ugs keys check fails if TOKEN_KEYS lacks a key that only a signing key or a webhook needs", async () => {
  for (const count of [{ signingKeyCount: 1 }, { webhookCount: 1 }]) {
    const routes = (router: ConnectRouter) => {
      router.service(AdminService, {
        listTokenKeys: () => ({ tokenKeys: [{ id: "new", primary: true, held: true }, { id: "old" }] }),
        listEnvironments: () => ({ environments: [{ name: "acme" }] }),
        reencryptUserGroupTokens: () => ({ tokenKeyUses: [{ tokenKeyId: "old", ...count }] }),
      });
    };
    const env = { UGS_URL: await newListener(createServer(connectNodeAdapter({ routes }))), UGS_TOKEN: "a-token" };
    const { code, stdout, stderr } = await ugs(["keys", "check", "--json"], { env });
    expect([code, stderr]).toEqual([5, expect.stringContaining("webhooks need: old")]);
    expect(jsonLinesIn(stdout)).toEqual([{ tokenKeyId: "old", ...count }, { tokenKeyId: "new" }]);
  }
});

describeWithRedis("TOKEN_KEYS", () => {
  it("ugs keys counts the groups per key, encrypts the tokens again, and reports when the old key can be removed", async () => {
    const redis = await newRedis();
    const operator = newOperator(redis);
    const start = (keys: string, like?: TestServer) =>
      newServer({ redisUrl: redis.url, env: { ...ADMIN_ENV, TOKEN_KEYS: keys }, ...(like && { like }) });
    const first = await start(OLD);
    const { groups } = grpcClients(first);
    const ids = Array.from({ length: 30 }, (_, i) => `group ${i}`);
    const tokens = await Promise.all(
      ids.map(async (userGroupId) => (await groups.getUserGroup({ userGroupId })).userGroup),
    );
    await first.stop();

    const server = await start(`${NEW},${OLD}`, first);
    const env = asRoot(server);
    const check = await ugs(["keys", "check"], { env });
    expect(check.stdout.split("\n").map((line) => line.split(/ {2,}/).slice(0, 5))).toEqual([
      ["KEY", "GROUPS", "SIGNING KEYS", "WEBHOOKS", "STATE"],
      ["old", "30", "0", "0", "decrypts"],
      ["new", "0", "0", "0", "first: encrypts"],
      [""],
    ]);
    const noteUse = async (time: number) => {
      const [checkValue] = (await operator.hget("ug:token-keys", "old"))?.split(" ") ?? [];
      await operator.hset("ug:token-keys", "old", `${checkValue} ${time}`);
    };
    // A key that encrypted a token a moment ago cannot be retired, because a worker may use the key again.
    await noteUse(Date.now());
    const early = await ugs(["keys", "rotate"], { env });
    expect(early.stdout).toBe("Read 30 user groups, and encrypted 30 tokens with the key new.\n");
    expect([early.code, early.stderr]).toEqual([
      5,
      expect.stringMatching(/a worker encrypted with the key at 20.* after 20/),
    ]);
    await noteUse(Date.now() - 60_000);
    const rotated = await ugs(["keys", "rotate"], { env });
    expect([rotated.code, rotated.stdout]).toEqual([
      0,
      expect.stringMatching(
        /^Read 30 user groups, and encrypted 0 tokens with the key new\.\nNo token needs the key old: remove this key from TOKEN_KEYS/,
      ),
    ]);
    const json = await ugs(["keys", "check", "--json"], { env });
    expect(jsonLinesIn(json.stdout)).toEqual([{ tokenKeyId: "new", userGroupCount: "30" }, { tokenKeyId: "old" }]);
    const { auditEvents } = await adminOf(server.url).listAuditEvents({
      environment: customerOf(server),
      method: "ReencryptUserGroupTokens",
    });
    expect(auditEvents.map(({ actorId, changedFields }) => [actorId, changedFields])).toEqual([
      ["root", ["token"]],
      ["root", ["token"]],
    ]);

    // The gate refuses the first call with OVERLOADED, and breaks the connection of the second call.
    const gate = await newGate(server);
    let calls = 0;
    gate.before = (call) => {
      if (call.rpc !== "ReencryptUserGroupTokens") return false;
      calls += 1;
      if (calls === 2) call.response.destroy();
      return calls === 1 ? refuseRate(call, "OVERLOADED", 10) : calls === 2;
    };
    const again = await ugs(["keys", "rotate", "--json"], { env: { ...env, UGS_URL: gate.url } });
    expect(JSON.parse(again.stdout)).toEqual({ userGroupCount: "30", reencryptedCount: "0", retiredTokenKeyIds: [] });
    expect(calls).toBeGreaterThan(2);

    const last = await start(NEW, first);
    const answers = await Promise.all(ids.map((userGroupId) => grpcClients(last).groups.getUserGroup({ userGroupId })));
    expect(answers.map(({ userGroup }) => userGroup)).toEqual(tokens);
  });

  it("the service does not start without a key that tokens need, and names an environment that needs the key", async () => {
    const redis = await newRedis();
    const first = await newServer({ redisUrl: redis.url, env: { TOKEN_KEYS: OLD } });
    for (const userGroupId of ["a", "b", "c"]) await grpcClients(first).groups.getUserGroup({ userGroupId });
    const second = await newServer({ redisUrl: redis.url, env: { TOKEN_KEYS: `${NEW},${OLD}` }, like: first });
    await first.stop();
    await second.stop();
    const lacking = newServerProcess({ redisUrl: redis.url, env: { TOKEN_KEYS: NEW } });
    expect(await lacking.exited()).toBe(1);
    expect(lacking.output()).toMatch(
      /cannot use Redis: TOKEN_KEYS lacks old, which \S+ needs; add the key after the other keys/,
    );
  });
});
