import { timestampNow } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { FIELD } from "../src/store/groups/group-record.ts";
import { ADMIN_ENV, adminOf, issueToken } from "./support/admin.ts";
import { foreignToken } from "./support/contract/context.ts";
import { describeWithRedis, newOperator, newProxy, newRedis, newServer } from "./support/opened.ts";
import { waitForSubscriptions, waitUntilReady } from "./support/operations.ts";
import type { TestRedis } from "./support/redis.ts";
import { documentedRights, withRights } from "./support/rights.ts";
import { grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

async function outcomeOf(call: Promise<unknown>): Promise<string | undefined> {
  try {
    await call;
    return "answered";
  } catch (error) {
    const info = ConnectError.from(error).findDetails(ErrorInfoSchema)[0];
    return info?.reason === "STORE_UNAVAILABLE" ? (info.metadata["outcome"] ?? "nothing") : info?.reason;
  }
}

async function outcomes(server: TestServer, token: string) {
  const { groups, viewers } = grpcClients(server);
  const rest = async (method: string, body: object) => {
    const headers = { Authorization: `Token ${server.tokens.customer}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}/api/user`, { method, headers, body: JSON.stringify(body) });
    const { error } = (await answer.json()) as { error?: { reason: string; outcome?: string } };
    return error?.reason === "STORE_UNAVAILABLE" ? (error.outcome ?? "nothing") : error?.reason;
  };
  const current = { case: "currentToken", value: token } as const;
  const [create, update, rotate, withRequestId, put, post, resolve] = await Promise.all([
    outcomeOf(groups.getUserGroup({ userGroupId: "new" })),
    outcomeOf(groups.updateUserGroup({ userGroupId: "a", name: "N" })),
    outcomeOf(groups.rotateUserGroupToken({ group: current })),
    outcomeOf(groups.rotateUserGroupToken({ group: current, requestId: "r" })),
    rest("PUT", { user_group_id: "a", name: "M" }),
    rest("POST", { current_token: token }),
    outcomeOf(viewers.resolveViewer({ token })),
  ]);
  return { create, update, rotate, withRequestId, put, post, resolve };
}

/** This timeout is so long that all concurrent calls are in flight before the first call times out. */
const REDIS_TIMEOUT = "2s";

/** Returns a record in which every kind of change has the given outcome. */
const all = (outcome: string) => {
  return { create: outcome, update: outcome, rotate: outcome, withRequestId: outcome, put: outcome, post: outcome };
};
const [NOT_MADE, UNKNOWN] = [all("not_made"), all("unknown")];

describeWithRedis.each(RUNTIMES)("errors of failed changes on %s", (runtime) => {
  const start = async (redis: { readonly url: string }) => {
    const server = await newServer({ runtime, redisUrl: redis.url, env: { REDIS_TIMEOUT } });
    const { userGroup } = await grpcClients(server).groups.getUserGroup({ userGroupId: "a" });
    return { server, token: userGroup?.token ?? "" };
  };

  it.each<[what: string, befall: (redis: TestRedis, server: TestServer) => unknown, reported: object]>([
    [
      "`not_made` if the change was never sent",
      (redis, server) => redis.kill().then(() => waitUntilReady(server, false)),
      { ...NOT_MADE, resolve: "nothing" },
    ],
    [
      "`unknown` if Redis does not reply to the change, and `not_made` if Redis does not reply to an earlier read",
      (redis) => redis.freeze(),
      // `create` reads the group before it creates the group.
      { ...UNKNOWN, create: "not_made", resolve: "nothing" },
    ],
    [
      "`not_made` if Redis rejects the change",
      (redis) => newOperator(redis).config("SET", "maxmemory", "1"),
      { ...NOT_MADE, resolve: "answered" },
    ],
  ])("the outcome is %s", async (_what, befall, reported) => {
    const redis = await newRedis();
    const { server, token } = await start(redis);
    await befall(redis, server);
    expect(await outcomes(server, token)).toEqual(reported);
  });

  it("the outcome is `unknown` if the connection loses the reply of Redis", async () => {
    const redis = await newRedis();
    const proxy = await newProxy(redis);
    const { server } = await start(proxy);
    proxy.cutReply(1);
    const change = grpcClients(server).groups.updateUserGroup({ userGroupId: "a", name: "made" });
    const error = ConnectError.from(await change.catch((thrown: unknown) => thrown));
    expect(error.findDetails(ErrorInfoSchema)[0]?.metadata).toEqual({ outcome: "unknown" });
    const operator = newOperator(redis);
    const [key = ""] = await operator.keys("*:group:a");
    expect(await operator.hget(key, FIELD.name)).toBe("made");
  });

  it("the outcome is also in the errors of AdminService, and in the result of each group of an import", async () => {
    const redis = await newRedis();
    // The API token of the admin stays cached while Redis is frozen.
    const env = { ...ADMIN_ENV, REDIS_TIMEOUT, API_TOKEN_CACHE: "1m" };
    const server = await newServer({ runtime, redisUrl: redis.url, env });
    await waitForSubscriptions(newOperator(redis), 1);
    const admin = adminOf(server.url, (await issueToken(server, "admin")).token);
    const { groups, viewers } = grpcClients(server);
    const token = foreignToken();
    const userGroups = [{ providedId: "a", token }, { providedId: "b" }];
    await admin.importUserGroups({ userGroups, snapshotTime: timestampNow() });
    redis.freeze();
    const [group, userGroupId] = [{ case: "currentToken", value: token } as const, "a"];
    const reported = await Promise.all([
      outcomeOf(viewers.resolveViewer({ token })),
      outcomeOf(admin.listUserGroups({})),
      outcomeOf(admin.lookupUserGroup({ userGroupId })),
      outcomeOf(admin.exportUserGroups({})),
      outcomeOf(groups.rotateUserGroupToken({ group })),
      outcomeOf(admin.deleteUserGroup({ userGroupId })),
      outcomeOf(admin.revokeUserGroupTokens({ userGroupId })),
      outcomeOf(admin.revokeUserGroupTokens({ userGroupId, requestId: "r" })),
    ]);
    expect(reported).toEqual([...Array(4).fill("nothing"), "unknown", "unknown", "unknown", "unknown"]);
    const many = Array.from({ length: 200 }, (_, i) => ({ providedId: `many ${i}` }));
    const { results } = await admin.importUserGroups({ userGroups: many });
    for (const { failure } of results) {
      expect(failure).toMatchObject({ code: Code.Unavailable, reason: "STORE_UNAVAILABLE", outcome: "not_made" });
    }
    redis.thaw();
    await waitUntilReady(server);
    expect((await viewers.resolveViewer({ token })).providedId).toBe("a");
  });

  it("the outcome is `unknown` if a script in Redis fails after it may have written data", async () => {
    const redis = await newRedis();
    const url = await withRights(redis, documentedRights());
    const { server, token } = await start({ url });
    const operator = newOperator(redis);
    const withoutRight = async (right: string) => {
      await operator.acl("SETUSER", "user-groups", right);
      const reported = await outcomes(server, token);
      await operator.acl("SETUSER", "user-groups", right.replace("-", "+"));
      const isMade = (await operator.exists(await keyOf("new"))) === 1;
      await operator.del(await keyOf("new"));
      return { reported, isMade };
    };
    const keyOf = async (id: string) => (await operator.keys(`*:group:${id}`))[0] ?? "none";
    // A script writes the audit event first, with XADD. If the user has no right to XADD, the script stops at this
    // command, and changes nothing.
    const { reported, isMade } = await withoutRight("-xadd");
    expect(reported).toEqual({ ...UNKNOWN, resolve: "answered" });
    expect(isMade).toBe(false);
    const { group } = { group: { case: "userGroupId", value: "a" } as const };
    const { userGroup } = await grpcClients(server).groups.rotateUserGroupToken({ group });
    // The first time, a connection sends the text of a script with EVAL. After that, it sends the digest with EVALSHA.
    // So forbid both commands.
    await operator.acl("SETUSER", "user-groups", "-evalsha", "-eval");
    const refused = await outcomes(server, userGroup?.token ?? "");
    expect(refused).toEqual({ ...NOT_MADE, resolve: "nothing" });
    expect(await keyOf("new")).toBe("none");
  });
});
