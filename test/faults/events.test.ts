import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, inject, it } from "vitest";
import {
  createUserGroupServiceClient,
  Role,
  reasonOf,
  WatchEventsRequest_Start as Start,
  watchEvents,
} from "../../packages/client/src/index.ts";
import { ADMIN_ENV, ADMIN_TOKEN, newName } from "../support/admin.ts";
import { describeWithRedis, newSentinels, newServer } from "../support/opened.ts";
import type { TestServer } from "../support/server.ts";

/** The number of acknowledged changes. */
const CHANGES = inject("isShort") ? 3000 : 100_000;

/** The number of faults, evenly spread over the changes: kills of workers and of the master of Redis by turns. */
const FAULTS = inject("isShort") ? 3 : 12;

/** The number of groups. One writer changes each of them. */
const WRITERS = 16;

describeWithRedis("under kills of workers and failovers of Redis", () => {
  it("a reader that reconnects sees every acknowledged change, in order", { timeout: 1_200_000 }, async () => {
    const sentinels = await newSentinels({ downAfterMs: 1000 });
    const env = {
      ...ADMIN_ENV,
      LOG_LEVEL: "info",
      MIN_REPLICAS_ACK: "1",
      REDIS_TIMEOUT: "2s",
      AUDIT_MAX_EVENTS: "1000000",
    };
    const start = (port = "0") => newServer({ redisUrl: sentinels.url, env: { ...env, PORT: port } });
    const workers: TestServer[] = [await start(), await start()];
    const urls = workers.map(({ url }) => url);
    const clientOf = (i: number, token: string) => {
      const client = createUserGroupServiceClient({ url: urls[i % 2] as string, token, timeoutMs: 60_000 });
      closeLater(() => client.close());
      return client;
    };
    const roots = [clientOf(0, ADMIN_TOKEN).admin, clientOf(1, ADMIN_TOKEN).admin];
    const root = roots[0] as (typeof roots)[0];
    const environment = { name: newName() };
    await root.createEnvironment({ environment });
    const { token } = await root.createApiToken({ environment, displayName: "writer", role: Role.MANAGE });

    const acknowledged = new Set<number>();
    let isDone = false;
    const writing = Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        const { userGroups } = clientOf(writer, token);
        const userGroupId = `group ${writer}`;
        await userGroups.getUserGroup({ userGroupId });
        for (let i = 0; acknowledged.size < CHANGES; i++) {
          // A failed change may have been made, but it was not acknowledged.
          const answer = await userGroups.updateUserGroup({ userGroupId, name: `${i}` }).catch(() => undefined);
          // The etag ends with the version, which is the id of the event.
          if (answer?.userGroup) acknowledged.add(Number(answer.userGroup.etag.split("-")[1]));
        }
      }),
    ).finally(() => {
      isDone = true;
    });

    const seen = new Set<number>();
    const failures: string[] = [];
    let restarts = 0;
    let cursor = "";
    const reading = (async () => {
      let last = 0;
      for (let turn = 0; ; turn++) {
        // The next turn reads from the other worker.
        const signal = AbortSignal.timeout(2000);
        const request = { environment, ...(cursor === "" ? { start: Start.BEGINNING } : { cursor }) };
        try {
          for await (const response of watchEvents(roots[turn % 2] as (typeof roots)[0], request, { signal })) {
            cursor = response.cursor;
            if (response.content.case === "event") {
              const id = Number(response.content.value.id);
              if (id <= last) failures.push(`${id} after ${last}`);
              last = id;
              seen.add(id);
            } else if (isDone && [...acknowledged].every((id) => seen.has(id))) return;
          }
          if (isDone && last >= Math.max(...acknowledged)) return;
        } catch (error) {
          // A failover lost an event that was not acknowledged, but already read.
          if (reasonOf(error) !== "EVENT_CURSOR_EXPIRED") throw error;
          restarts++;
          [cursor, last] = ["", 0];
        }
      }
    })();
    reading.catch(() => {});

    for (let fault = 0; fault < FAULTS; fault++) {
      await waitFor("further changes", () => acknowledged.size >= ((fault + 1) * CHANGES) / (FAULTS + 1), 600_000);
      if (fault % 2 === 0) {
        const i = (fault / 2) % 2;
        const worker = workers[i] as TestServer;
        worker.signal("SIGKILL");
        await worker.stop();
        workers[i] = await start(new URL(worker.url).port);
      } else {
        const master = await sentinels.master();
        await master.kill();
        await waitFor("another master", async () => (await sentinels.master()) !== master);
        await master.restart();
        await sentinels.whole();
      }
    }
    await writing;
    await reading;
    const stored: number[] = [];
    for await (const { content } of watchEvents(root, { environment, start: Start.BEGINNING })) {
      if (content.case !== "event") break;
      stored.push(Number(content.value.id));
    }
    console.log(`${acknowledged.size} acknowledged, ${stored.length} stored, ${seen.size} seen, ${restarts} restarts`);
    expect(failures).toEqual([]);
    expect([...acknowledged].filter((id) => !seen.has(id))).toEqual([]);
    expect(stored.filter((id) => !seen.has(id))).toEqual([]);
    expect(stored.length).toBeGreaterThanOrEqual(acknowledged.size);
  });
});
