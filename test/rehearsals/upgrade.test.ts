import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { closeLater, newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { freePort, pause } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { asRoot, startUgs } from "../../packages/cli/test/support/ugs.ts";
import { ADMIN_TOKEN, adminOf, bearer, customerOf } from "../support/admin.ts";
import { grpcJsClient } from "../support/clients/connect.ts";
import { describeWithRedis, newRedis, newServer } from "../support/opened.ts";
import { type TestServer, tokenKey } from "../support/server.ts";
import { newTcpBalancer } from "../support/tcp-balancer.ts";
import { beginAcknowledgedLoad, PHASE_MS } from "./acknowledged-load.ts";

/** The commit of the earlier release. Default: one that does not note under which key it encrypts. */
const FROM = process.env["UPGRADE_FROM"] ?? "19ac77f";

const GROUPS = 2000;
const PAGE = 500;
const CLIENTS = 4;
const [OLD, NEW] = [tokenKey("old", 1), tokenKey("new", 2)];

/** Builds the earlier release in a folder of its own. @returns its bundle */
function buildEarlier(): string {
  const folder = join(newFolder(), "earlier");
  const git = (...args: string[]) => execFileSync("git", args, { cwd: ROOT, stdio: "pipe" });
  git("worktree", "add", "--detach", folder, FROM);
  closeLater(() => git("worktree", "remove", "--force", folder));
  // What it depends on is no longer all installed here.
  execFileSync("npm", ["ci", "--omit=dev", "--no-audit", "--no-fund"], { cwd: folder, stdio: "pipe" });
  execFileSync(process.execPath, ["scripts/build.js"], { cwd: folder, stdio: "pipe" });
  return join(folder, "dist/main.js");
}

/** The tokens of all groups that were imported, as a server exports them. */
async function tokensOf(server: TestServer): Promise<{ [id: string]: string }> {
  const tokens: { [id: string]: string } = {};
  for (let pageToken = "", isFirst = true; isFirst || pageToken !== ""; isFirst = false) {
    const page = await adminOf(server.url).exportUserGroups({
      ...{ environment: customerOf(server), pageSize: PAGE, pageToken },
      ...{ includeTokens: true, providedIdPrefix: "imported " },
    });
    for (const { providedId, token } of page.userGroups) tokens[providedId] = token;
    pageToken = page.nextPageToken;
  }
  return tokens;
}

describeWithRedis(`an upgrade from ${FROM}`, () => {
  it("loses no call, nor does its way back; the key is changed after it", async () => {
    const earlier = buildEarlier();
    const redis = await newRedis();
    const ports = [await freePort(), await freePort()];
    const servers: TestServer[] = [];
    const start = async (i: 0 | 1, release: "earlier" | "this", keys: string) => {
      const env = { ADMIN_TOKEN, TOKEN_KEYS: keys, PORT: String(ports[i]) };
      const like = servers[0] && { like: servers[0] };
      servers[i] = await newServer({
        redisUrl: redis.url,
        env,
        ...like,
        ...(release === "earlier" && { main: earlier }),
      });
    };
    const restart = async (...args: Parameters<typeof start>) => {
      expect(await servers[args[0]]?.stop()).toBe(0);
      await start(...args);
    };
    for (const i of [0, 1] as const) await start(i, "earlier", OLD);
    const [first, second] = servers as [TestServer, TestServer];
    const environment = customerOf(first);
    for (let i = 0; i < GROUPS; i += PAGE) {
      const userGroups = Array.from({ length: PAGE }, (_, j) => ({
        providedId: `imported ${i + j}`,
        // Half of them bring a token of another system.
        ...(j % 2 === 0 && { token: `token-of-another-system-${i + j}-${crypto.randomUUID()}` }),
      }));
      const { results } = await adminOf(second.url).importUserGroups({
        ...{ environment, userGroups, snapshotTime: timestampNow() },
      });
      expect(results).toHaveLength(PAGE);
    }
    const tokens = await tokensOf(first);
    expect(Object.keys(tokens)).toHaveLength(GROUPS);

    const url = await newTcpBalancer(ports);
    const clients = Array.from({ length: CLIENTS }, () => grpcJsClient(url));
    for (const client of clients) closeLater(() => client.close());
    const load = await beginAcknowledgedLoad([clients], bearer(first.tokens.customer));
    const phase = async (name: string) => {
      await load.during(name, PHASE_MS);
      for (const server of servers) expect(await tokensOf(server)).toEqual(tokens);
    };
    await phase("both are of the earlier release");
    await restart(1, "this", OLD);
    await phase("one of two is of this release");
    await restart(1, "earlier", OLD);
    await phase("it went back");
    await restart(1, "this", OLD);
    await phase("one of two is of this release again");

    // The key is changed too early: the other worker encrypts under the old one, and does not note it.
    await restart(0, "earlier", `${OLD},${NEW}`);
    await restart(1, "this", `${OLD},${NEW}`);
    await phase("both have both keys");
    await restart(1, "this", `${NEW},${OLD}`);
    await pause(32_000);
    const early = startUgs(["keys", "rotate"], asRoot(servers[1] as TestServer));
    expect(await early.exited(), early.output()).toBe(5);
    expect(early.output()).toMatch(/\S+ needs it: re-encrypt/);
    await phase("one encrypts under the new key, and the earlier release under the old one");

    await restart(0, "this", `${NEW},${OLD}`);
    await phase("both are of this release, and encrypt under the new key");
    await pause(32_000);
    const rotated = startUgs(["keys", "rotate"], asRoot(servers[0] as TestServer));
    expect([await rotated.exited(), rotated.output()]).toEqual([
      0,
      expect.stringContaining("No token needs the key old any longer"),
    ]);
    await restart(0, "earlier", `${NEW},${OLD}`);
    await phase("one went back after the change of the key");
    for (const i of [0, 1] as const) await restart(i, "this", NEW);
    await phase("both have the new key alone");
    expect((await load.end()).wrong).toEqual([]);
  });
});
