import { hash } from "node:crypto";
import { expect, it } from "vitest";
import { redisAuditTrail } from "../src/store/audit-trail.ts";
import type { StoreClient } from "../src/store/connection/client.ts";
import { byId, newEnvironment, newGroup, RING } from "./support/contract/context.ts";
import { describeWithRedis, newStoreClient, redisUrl } from "./support/opened.ts";
import { redisOf } from "./support/redis-of.ts";
import { AUDIT, testUserGroupAdmin, testUserGroups } from "./support/stores.ts";

const DAY_S = 86_400;

const HOUR_S = 3600;

/** Creates a client that changes its scripts, so that the scripts add `seconds` to the time of Redis. */
async function clientAhead(seconds: number): Promise<StoreClient> {
  const client = await newStoreClient({ url: redisUrl as string });
  const redis = redisOf(client);
  const run = redis.runScript;
  redis.runScript = ({ lua }, args) => {
    const call = "local time = redis.call('TIME')\n";
    expect(lua).toContain(call);
    const changed = lua.replace(call, `${call}time[1] = string.format('%.0f', time[1] + ${seconds})\n`);
    return run({ name: hash("sha1", changed), lua: changed }, args);
  };
  return client;
}

describeWithRedis("jumps of the clock of Redis", () => {
  it.each([
    ["is set back by an hour, across midnight", [-HOUR_S]],
    ["is set back by an hour and forward again", [-HOUR_S, HOUR_S]],
    ["is set back by three days", [-3 * DAY_S]],
  ])("audit events stay in order and etags stay unique if the clock of Redis %s", async (_, jumps) => {
    const now = Date.now() / 1000;
    // The simulated clock starts at half an hour after midnight, about two days ahead.
    const start = Math.ceil(2 * DAY_S - (now % DAY_S) + HOUR_S / 2);
    const environment = await newEnvironment({}, redisOf(await clientAhead(0)));
    const etags: string[] = [];
    const changes: string[] = [];
    let ahead = start;
    for (const jump of [0, ...jumps]) {
      ahead += jump;
      const client = await clientAhead(ahead);
      const store = testUserGroups(client, RING);
      // The previous round has deleted the group, so this call creates the group.
      const { group } = await store.getOrCreate(environment, newGroup("a"));
      etags.push(group.etag);
      changes.push("token");
      for (let i = 0; i < 3; i++) {
        const { etag } = await store.update(environment, "a", { name: `${ahead} ${i}` });
        const rotated = await store.rotate(environment, byId("a"));
        etags.push(etag, rotated.etag);
        changes.push("name", "token");
      }
      await testUserGroupAdmin(client, RING).delete(environment, "a");
      changes.push("");
    }
    expect(new Set(etags).size).toBe(etags.length);
    const listed = { ...environment, createTime: 0, deleteTime: undefined };
    const trail = redisAuditTrail(await clientAhead(0), AUDIT);
    const { items } = await trail.list([listed], {}, { after: "", size: 1000 });
    const inOrder = items.toReversed();
    expect(inOrder.map(({ changedFields }) => changedFields.at(-1) ?? "")).toEqual(changes);
    for (const [i, { id }] of inOrder.entries())
      if (i > 0) expect(Number(id)).toBeGreaterThan(Number(inOrder[i - 1]?.id));
    const paged: string[] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page = await trail.list([listed], {}, { after, size: 2 });
      paged.push(...page.items.map(({ id }) => id));
      after = page.next;
    }
    expect(paged).toEqual(items.map(({ id }) => id));
  });
});
