import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { closeLater } from "@user-group-service/testing/opened";
import { repeat } from "@user-group-service/testing/repeat";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { asRoot, jsonLinesIn, startUgs, ugsBuilt } from "../packages/cli/test/support/ugs.ts";
import { ADMIN_TOKEN, adminOf, customerOf } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { mountSecrets } from "./support/secret-files.ts";
import { type TestServer, tokenKey } from "./support/server.ts";

const GROUPS = 12_000;
const PAGE = 500;

const [OLD, NEW] = [tokenKey("old", 1), tokenKey("new", 2)];

describeWithRedis("key rotation", () => {
  it("the key that encrypts tokens is rotated under load without failed calls, even if `ugs keys rotate` is killed and started again", async () => {
    const redis = await newRedis();
    const mounted = mountSecrets({ keys: OLD });
    const env = { ADMIN_TOKEN, TOKEN_KEYS: "", TOKEN_KEYS_FILE: mounted.pathOf("keys"), LOG_LEVEL: "info" };
    const first = await newServer({ redisUrl: redis.url, env });
    const second = await newServer({ redisUrl: redis.url, env, like: first });
    const workers = [first, second];
    const environment = customerOf(first);
    for (let i = 0; i < GROUPS; i += PAGE) {
      const userGroups = Array.from({ length: PAGE }, (_, j) => ({ providedId: `group ${i + j}`, name: "" }));
      await adminOf(first.url).importUserGroups({ environment, userGroups });
    }
    const loads = workers.map(startLoad);
    const swap = async (keys: string) => {
      const used = (server: TestServer) => server.log().filter(({ msg }) => msg.endsWith("are used")).length;
      const before = workers.map(used);
      mounted.swap({ keys });
      await waitFor("both workers use the new file", () =>
        workers.every((server, i) => used(server) > (before[i] ?? 0)),
      );
    };

    await swap(`${OLD}\n${NEW}`);
    await swap(`${NEW}\n${OLD}`);
    const swapped = performance.now();
    const killed = startUgs(["keys", "rotate"], asRoot(first));
    await waitFor("some tokens are re-encrypted", async () => {
      const { tokenKeyUses } = await adminOf(second.url).reencryptUserGroupTokens({
        environment,
        pageSize: 1000,
        validateOnly: true,
      });
      // Wait until the rotation command has encrypted many tokens. The load alone encrypts far fewer tokens with the
      // new key.
      return tokenKeyUses.some(({ tokenKeyId, userGroupCount }) => tokenKeyId === "new" && userGroupCount > 900n);
    });
    killed.signal("SIGKILL");
    await killed.exited();
    const left = await usesOf(first);
    expect(left["new"]).toBeGreaterThan(900);
    expect(left["old"]).toBeGreaterThan(900);
    const began = performance.now();
    const resumed = startUgs(["keys", "rotate"], asRoot(first));
    const code = await resumed.exited();
    const ended = performance.now();
    const seconds = (ended - began) / 1000;
    // A worker records every ten seconds that it encrypts with the old key. For 30 seconds after the last record, the
    // key counts as used, and the command exits with 5.
    const isInUse = resumed.output().includes("a worker encrypted with the key at");
    expect(code).toBe(isInUse ? 5 : 0);
    expect(isInUse || ended - swapped > 15_000).toBe(true);
    const [, counted = ""] = /encrypted ([\d,]+) tokens with the key new/.exec(resumed.output()) ?? [];
    const reencrypted = Number(counted.replaceAll(",", ""));
    expect(reencrypted).toBeGreaterThan(0);
    expect(reencrypted).toBeLessThanOrEqual(left["old"] ?? 0);
    console.log(
      `${reencrypted} of ${GROUPS} groups were re-encrypted after the kill in ${seconds.toFixed(1)} s, under load`,
    );
    await waitFor("no worker encrypts with the old key any more", async () => {
      const { tokenKeys, readTime } = await adminOf(first.url).listTokenKeys({});
      const { lastEncryptTime } = tokenKeys.find(({ id }) => id === "old") ?? {};
      return lastEncryptTime && readTime && timestampMs(readTime) - timestampMs(lastEncryptTime) > 30_000;
    });
    const last = startUgs(["keys", "rotate"], asRoot(second));
    expect([await last.exited(), last.output()]).toEqual([0, expect.stringContaining("No token needs the key old")]);
    expect((await usesOf(first))["old"]).toBe(0);
    await swap(NEW);
    await pause(1000);
    for (const load of loads) expect(await load.end()).toEqual([]);
    // A worker that never had the old key can decrypt the tokens.
    const fresh = await newServer({ redisUrl: redis.url, env, like: first });
    const { userGroups } = await adminOf(fresh.url).exportUserGroups({
      environment,
      pageSize: 500,
      includeTokens: true,
    });
    for (const { token } of userGroups) expect(token).toMatch(/^ugt_/);
  });
});

async function usesOf(server: TestServer): Promise<{ [id: string]: number }> {
  const { stdout } = await ugsBuilt(["keys", "check", "--json"], { env: asRoot(server) });
  const uses = jsonLinesIn<{ tokenKeyId: string; userGroupCount?: string }>(stdout);
  return Object.fromEntries(uses.map(({ tokenKeyId, userGroupCount = "0" }) => [tokenKeyId, Number(userGroupCount)]));
}

/** Starts a loop of calls that read, create and update groups, rotate tokens, and resolve viewers. */
function startLoad({ url, tokens }: TestServer) {
  const sessionManager = new Http2SessionManager(url);
  closeLater(() => sessionManager.abort());
  const transport = createGrpcTransport({ baseUrl: url, sessionManager });
  const groups = createClient(UserGroupService, transport);
  const viewers = createClient(ViewerService, transport);
  const header = { headers: { Authorization: `Token ${tokens.customer}` } };
  const any = () => `group ${Math.floor(Math.random() * GROUPS)}`;
  return repeat([
    () => groups.getUserGroup({ userGroupId: any() }, header),
    () => groups.getUserGroup({ userGroupId: `new ${crypto.randomUUID()}` }, header),
    () => groups.updateUserGroup({ userGroupId: any(), name: crypto.randomUUID() }, header),
    async () => {
      const { userGroup } = await groups.rotateUserGroupToken({ group: { case: "userGroupId", value: any() } }, header);
      await viewers.resolveViewer({ token: userGroup?.token ?? "" }, header).catch((error: unknown) => {
        // The load on the other worker may have rotated the token concurrently.
        if (!String(error).includes("not_found")) throw error;
      });
    },
  ]);
}
