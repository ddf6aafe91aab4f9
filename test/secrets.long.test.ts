import { timestampNow } from "@bufbuild/protobuf/wkt";
import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { Redis } from "ioredis";
import { beforeAll, expect, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { newApiToken } from "../src/domain/token.ts";
import { adminOf } from "./support/admin.ts";
import { foreignToken, newName } from "./support/contract/context.ts";
import { describeWithRedis, patient, suiteRedis } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import { startServer, type TestServer } from "./support/server.ts";

const SERVER_ENV = { LOG_LEVEL: "trace", ADMIN_TOKEN: "admin-token-of-the-test-0001" };

describeWithRedis.each(RUNTIMES)("after a busy run on %s", (runtime) => {
  const issued = newApiToken();
  /** Every credential that was used or returned. */
  const secrets = new Set<string>([issued]);
  const commands: string[] = [];
  const redis = suiteRedis();
  const inspector = forSuite(
    () => new Redis(redis.url).on("error", () => {}),
    (connection) => connection.disconnect(),
  );
  let server: TestServer;

  beforeAll(async () => {
    const monitor = await inspector.monitor();
    monitor.on("monitor", (_: string, args: string[]) => commands.push(args.join(" ")));
    const env = SERVER_ENV;
    const like = {
      environment: "busy",
      tokens: { customer: issued, testing: newApiToken(), untagged: "untagged-0123456789abcdef" },
    };
    for (const secret of [env.ADMIN_TOKEN, ...Object.values(like.tokens)]) secrets.add(secret);
    server = await startServer(patient({ runtime, redisUrl: redis.url, env, like }));
    await busyRun(server, secrets);
    expect(await server.stop()).toBe(0);
    await waitFor("the monitor has received all commands", () =>
      commands.some((command) => command.includes("settled-last")),
    );
    monitor.disconnect();
  });

  it("the run has produced enough data to search", async () => {
    expect(secrets.size).toBeGreaterThan(60);
    expect(await dump(inspector)).toMatch(/"d":"[\w-]{22}"/);
    expect(server.log().filter(({ level }) => level === "debug").length).toBeGreaterThan(50);
    expect(server.log().some(({ msg }) => msg === "call refused")).toBe(true);
    expect(commands.some((command) => /^(eval|evalsha) /i.test(command))).toBe(true);
  });

  it("the search finds no usable token in Redis, but finds the tokens that the test adds to Redis", async () => {
    expect(found(await dump(inspector), secrets)).toEqual([]);
    const [first = "", second = "", third = ""] = secrets;
    await inspector.set("planted:1", `x${first}x`);
    await inspector.hset("planted:2", second, "x");
    const [, , , fourth = ""] = secrets;
    await inspector.zadd("planted:3", 1, Buffer.from(third).toString("base64"));
    await inspector.xadd("planted:4", "*", "a", `x${fourth}x`);
    expect(found(await dump(inspector), secrets).sort()).toEqual([first, second, third, fourth].sort());
    await inspector.del("planted:1", "planted:2", "planted:3", "planted:4");
  });

  it("the audit trail contains events, but no credentials and no values of groups", async () => {
    const text = (await dump(inspector, "ug:{*}:events:*")) + (await dump(inspector, "ug:{*}:updates:*"));
    expect(text).toContain("RotateUserGroupToken");
    expect(text).toContain("CreateApiToken");
    expect(text).toContain("[redacted]");
    expect(found(text, secrets)).toEqual([]);
    expect(text).not.toMatch(/hidden-(name|key|value|property)/);
  });

  it("no command to Redis contained a usable token", () => {
    const text = commands.join("\n");
    expect(found(text, secrets)).toEqual([]);
    const [first = ""] = secrets;
    expect(found(`${text} ${first}`, secrets)).toEqual([first]);
  });

  it("the search finds no usable token in the log, but finds a token that the test adds to the log", () => {
    expect(found(server.output(), secrets)).toEqual([]);
    expect(server.output()).not.toMatch(/ug[tk]_[0-9A-Za-z]{8}/);
    const [first = ""] = secrets;
    expect(found(`${server.output()}{"msg":"${first}"}`, secrets)).toEqual([first]);
  });
});

async function busyRun(server: TestServer, secrets: Set<string>): Promise<void> {
  const { groups, viewers } = grpcClients(server);
  const rotate = async (userGroupId: string, request: Parameters<typeof groups.rotateUserGroupToken>[0]) => {
    const { userGroup } = await groups.rotateUserGroupToken(request);
    secrets.add(userGroup?.token ?? "");
    expect(userGroup?.providedId).toBe(userGroupId);
    return userGroup?.token ?? "";
  };
  for (let i = 0; i < 12; i++) {
    const userGroupId = `group ${i}`;
    const { userGroup } = await groups.getUserGroup({ userGroupId, mapping: { s: "d" }, properties: { p: i } });
    const first = userGroup?.token ?? "";
    secrets.add(first);
    await groups.updateUserGroup({ userGroupId, name: "N" });
    const values = { mapping: { "hidden-key": "hidden-value" }, properties: { "hidden-property": "hidden-value" } };
    const strange = newApiToken();
    secrets.add(strange);
    for (const credential of [first, server.tokens.customer, `a${first}b`, `a${strange}b`]) {
      const headers = { "X-Request-Id": credential };
      await groups.updateUserGroup({ userGroupId, name: "hidden-name", ...values }, { headers });
    }
    const previousTokenTtl = { seconds: 3600n };
    const second = await rotate(userGroupId, { group: { case: "currentToken", value: first }, previousTokenTtl });
    const third = await rotate(userGroupId, {
      group: { case: "currentToken", value: second },
      previousTokenTtl,
      requestId: `request-${i}`,
    });
    await viewers.resolveViewer({ token: third });
    await viewers.resolveViewer({ token: second });
    await rotate(userGroupId, { group: { case: "userGroupId", value: userGroupId }, requestId: `by-id-${i}` });
    const fifth = await rotate(userGroupId, { group: { case: "userGroupId", value: userGroupId }, previousTokenTtl });
    await rotate(userGroupId, { group: { case: "currentToken", value: fifth } });
    await failures(server, { first, third, fifth });
    await rest(server, userGroupId, secrets);
    await issuing(server, secrets);
    await migrating(server, secrets);
  }
  await groups.getUserGroup({ userGroupId: "settled-last" });
}

async function issuing(server: TestServer, secrets: Set<string>): Promise<void> {
  // These calls revoke issued tokens. After that, no API token can issue tokens in the same environment for some
  // seconds. So these calls use an environment of their own.
  const environment = { name: newName(), tag: ApiEnvironmentTag.CUSTOMER };
  const root = adminOf(server.url, SERVER_ENV.ADMIN_TOKEN);
  await root.createEnvironment({ environment });
  const admin = await root.createApiToken({ environment, displayName: "admin", role: Role.ADMIN });
  const other = await adminOf(server.url, admin.token).createApiToken({ displayName: "other", role: Role.MANAGE });
  for (const { token } of [admin, other]) secrets.add(token);
  await grpcClients(server, other.token).groups.getUserGroup({ userGroupId: "group 0" });
  // Passes tokens in place of ids.
  await failureOf(root.revokeApiToken({ environment, apiTokenId: other.token }));
  const named = { environment, apiTokenId: other.apiToken?.id ?? "" };
  const rotated = await root.rotateApiToken({ ...named, previousTokenTtl: { seconds: 60n } });
  secrets.add(rotated.token);
  await failureOf(root.rotateApiToken({ environment, apiTokenId: rotated.token }));
  await failureOf(root.updateApiToken({ environment, apiTokenId: rotated.token, displayName: "x" }));
  await root.updateApiToken({ ...named, displayName: "renamed" });
  for (const token of [other.token, rotated.token, server.tokens.customer]) {
    await root.lookupApiToken({ token });
    await adminOf(server.url, token).getCaller({});
    await failureOf(root.lookupApiToken({ token: token.slice(0, -1) }));
  }
  const mistaken = foreignToken();
  secrets.add(mistaken);
  await failureOf(root.lookupApiToken({ token: mistaken }));
  await root.revokeApiToken({ ...named, revokeIssued: true });
  await failureOf(root.lookupApiToken({ token: rotated.token }));
  await failureOf(grpcClients(server, other.token).groups.getUserGroup({ userGroupId: "group 0" }));
  await root.listApiTokens({ environment });
}

async function migrating(server: TestServer, secrets: Set<string>): Promise<void> {
  const environment = { name: server.environment, tag: ApiEnvironmentTag.CUSTOMER };
  const root = adminOf(server.url, SERVER_ENV.ADMIN_TOKEN);
  const { groups, viewers } = grpcClients(server);
  const userGroups = ["a", "b", "c"].map((name) => ({ providedId: `imported ${name}`, token: foreignToken() }));
  for (const { token } of userGroups) secrets.add(token);
  const [a, b, c] = userGroups.map(({ token }) => token) as [string, string, string];
  const snapshotTime = timestampNow();
  for (let times = 0; times < 2; times++) await root.importUserGroups({ environment, userGroups, snapshotTime });
  // First import a token that another group has, and a malformed user group token. Then import an invalid token.
  const taken = { providedId: "imported twice", token: a };
  const cut = { providedId: "imported cut", token: `ugt_${b}` };
  await root.importUserGroups({ environment, userGroups: [taken, cut], snapshotTime });
  const broken = { ...taken, token: `${c} ${c}` };
  await failureOf(root.importUserGroups({ environment, userGroups: [broken], snapshotTime }));
  await viewers.resolveViewer({ token: a });
  const rotation = { group: { case: "currentToken", value: a } as const, previousTokenTtl: { seconds: 60n } };
  secrets.add(
    (await groups.rotateUserGroupToken({ ...rotation, requestId: `r${secrets.size}` })).userGroup?.token ?? "",
  );
  await viewers.resolveViewer({ token: a });
  await failureOf(viewers.resolveViewer({ token: `${b}${b}` }));
  const exported = await root.exportUserGroups({ environment, includeTokens: true, providedIdPrefix: "imported " });
  expect(exported.userGroups.map(({ token }) => secrets.has(token))).toEqual([true, true, true]);
  await root.revokeUserGroupTokens({ environment, userGroupId: "imported b" });
  for (const { providedId } of userGroups) await root.deleteUserGroup({ environment, userGroupId: providedId });
}

/** Makes calls that the service rejects. The calls contain tokens in values that a log line could include. */
async function failures(server: TestServer, tokens: { first: string; third: string; fifth: string }): Promise<void> {
  const { groups, viewers } = grpcClients(server);
  const current = (value: string) => ({ group: { case: "currentToken", value } as const });
  expect(await failureOf(groups.rotateUserGroupToken(current(tokens.first)))).toMatchObject({ code: "NotFound" });
  expect(await failureOf(viewers.resolveViewer({ token: tokens.first.slice(0, -1) }))).toMatchObject({
    code: "NotFound",
  });
  await failureOf(viewers.resolveViewer({ token: server.tokens.customer }));
  await failureOf(viewers.resolveViewer({ token: tokens.third.repeat(30) }));
  const wrong = grpcClients(server, tokens.fifth).groups;
  expect(await failureOf(wrong.getUserGroup({ userGroupId: "a" }))).toMatchObject({ code: "Unauthenticated" });
  const headers = { "X-Request-Id": tokens.third };
  await failureOf(groups.updateUserGroup({ userGroupId: "missing", name: "N" }, { headers }));
  await failureOf(
    groups.updateUserGroup({ userGroupId: "missing" }, { headers: { "X-Request-Id": server.tokens.customer } }),
  );
}

async function rest(server: TestServer, userGroupId: string, secrets: Set<string>): Promise<void> {
  const headers = { Authorization: `Token ${server.tokens.customer}`, "Content-Type": "application/json" };
  const url = `${server.url}/api/user`;
  const got = await fetch(`${url}?user_group_id=${encodeURIComponent(userGroupId)}`, { headers });
  const { user_group } = (await got.json()) as { user_group: { token: string } };
  secrets.add(user_group.token);
  const body = JSON.stringify({ current_token: user_group.token, previous_token_ttl: "60s" });
  const rotated = await fetch(url, { method: "POST", headers, body });
  expect(rotated.status).toBe(200);
  secrets.add(((await rotated.json()) as typeof got & { user_group: { token: string } }).user_group.token);
  expect((await fetch(url, { method: "POST", headers, body })).status).toBe(404);
  expect((await fetch(url, { method: "POST", headers, body: body.slice(0, -2) })).status).toBe(400);
  expect((await fetch(`${server.url}/${user_group.token}`, { headers })).status).toBe(404);
  expect((await fetch(`${url}?token=${user_group.token}`, { method: "DELETE", headers })).status).toBe(405);
}

async function dump(redis: Redis, match = "*"): Promise<string> {
  const parts: string[] = [];
  for await (const keys of redis.scanStream({ count: 1000, match }) as AsyncIterable<string[]>) {
    for (const key of keys) {
      parts.push(key, ((await redis.dumpBuffer(key)) ?? Buffer.alloc(0)).toString("latin1"));
      parts.push(JSON.stringify(await readKey(redis, key)));
    }
  }
  return parts.join("\n");
}

async function readKey(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  if (type === "hash") return redis.hgetall(key);
  if (type === "string") return redis.get(key);
  if (type === "zset") return redis.zrange(key, 0, -1);
  if (type === "stream") return redis.xrange(key, "-", "+");
  throw new Error(`cannot read values of type ${type}`);
}

/** Returns the secrets that a text contains, as clear text or in an encoding. */
function found(text: string, secrets: ReadonlySet<string>): string[] {
  return [...secrets].filter((secret) => {
    const bytes = Buffer.from(secret);
    // The last characters of base64 depend on the following bytes, so the search omits these characters.
    const forms = [secret, encodeURIComponent(secret), bytes.toString("hex"), bytes.toString("base64").slice(0, 40)];
    return forms.some((form) => text.includes(form));
  });
}
