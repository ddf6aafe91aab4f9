import { createClient } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { closeLater } from "@user-group-service/testing/opened";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import {
  AdminService,
  WatchEventsRequest_Start as Start,
  type WatchEventsResponse,
} from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { MAX_WATCHERS } from "../src/domain/capacity.ts";
import { EVENTS_PAGE } from "../src/rpc/admin/event-watchers.ts";
import { ADMIN_ENV, ADMIN_TOKEN, openAdminTransport, presenting } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { failureOf } from "./support/rpc.ts";
import { type Admin, importGroups, type Named, newEnvironment, watch } from "./support/watch.ts";

const metrics = async (url: string) => (await http1(url, "/metrics")).body.toString();

/** Creates a client with its own connection. */
function client(url: string): Admin {
  const { transport, close } = openAdminTransport(url, { protocol: "connect", httpVersion: "2", binary: true });
  closeLater(close);
  return createClient(AdminService, presenting(transport, ADMIN_TOKEN));
}

describe("streams of events", () => {
  it("a stream begins with a snapshot of all groups, and a new stream continues an incomplete snapshot", async () => {
    const server = await newServer({ env: ADMIN_ENV });
    const root = client(server.url);
    const environment = await newEnvironment(root);
    const ids = Array.from({ length: 1100 }, (_, i) => `group ${String(i).padStart(4, "0")}`);
    for (let i = 0; i < ids.length; i += 500) await importGroups(root, environment, ids.slice(i, i + 500));
    const suspended = ids[5] as string;
    await root.suspendUserGroup({ environment, userGroupId: suspended, reason: "unpaid", message: "Call us" });
    const shown = (responses: readonly WatchEventsResponse[]) =>
      responses.flatMap(({ content }) => (content.case === "snapshot" ? content.value.userGroups : []));
    const whole = watch(root, { environment, start: Start.SNAPSHOT });
    await waitFor("the snapshot", () => shown(whole.responses).length >= ids.length);
    const groups = shown(whole.responses);
    expect(groups.map(({ userGroupId }) => userGroupId)).toEqual(ids);
    const { userGroup } = await root.lookupUserGroup({ environment, userGroupId: ids[7] as string });
    expect(groups[7]?.etag).toBe(userGroup?.etag);
    expect(groups.filter(({ suspension }) => suspension)).toMatchObject([
      { userGroupId: suspended, suspension: { reason: "unpaid", message: "Call us" } },
    ]);
    const parts = whole.responses.flatMap(({ content }) =>
      content.case === "snapshot" ? [content.value.complete] : [],
    );
    expect(parts).toEqual([false, false, true]);
    await importGroups(root, environment, [ids[3] as string], "changed");
    expect(await whole.seen(1)).toEqual([`user_group.updated ${ids[3]}`]);
    const rest = watch(root, { environment, cursor: whole.responses[0]?.cursor ?? "" });
    expect(await rest.seen(1)).toEqual([`user_group.updated ${ids[3]}`]);
    expect(shown(rest.responses).map(({ userGroupId }) => userGroupId)).toEqual(ids.slice(500));
  });

  it("a stream is refused while its environment or worker has the maximum number of streams", async () => {
    const server = await newServer({ env: ADMIN_ENV });
    const connections = Array.from({ length: 12 }, () => client(server.url));
    const root = connections[0] as Admin;
    const streams: ReturnType<typeof watch>[] = [];
    const refused = { code: "ResourceExhausted", reason: "TOO_MANY_WATCHERS" };
    let last: Named | undefined;
    for (let i = 0; i < MAX_WATCHERS.worker / MAX_WATCHERS.environment; i++) {
      const environment = await newEnvironment(root);
      const own = Array.from({ length: MAX_WATCHERS.environment }, (_, j) =>
        watch(connections[(2 * i + (j % 2)) % connections.length] as Admin, { environment }),
      );
      await Promise.all(own.map((stream) => stream.isOpen()));
      expect(await failureOf(watch(connections[11] as Admin, { environment }).ended)).toEqual(refused);
      streams.push(...own);
      last = environment;
    }
    const other = await newEnvironment(root);
    for (let i = 0; i < 500; i += 100) {
      const extra = Array.from({ length: 100 }, () => watch(connections[11] as Admin, { environment: other }));
      for (const each of extra) expect(await failureOf(each.ended)).toEqual(refused);
    }
    await importGroups(root, last as Named, ["a"]);
    for (const each of streams.slice(-MAX_WATCHERS.environment))
      expect(await each.seen(1)).toEqual(["user_group.created a"]);
    for (const each of streams) each.end();
    await waitFor("a new stream can be opened", () =>
      watch(root, { environment: other })
        .isOpen()
        .then(
          () => true,
          () => false,
        ),
    );
  });

  it("a stream pauses for a slow client, and then continues in order", async () => {
    const server = await newServer({ env: ADMIN_ENV });
    const root = client(server.url);
    const environment = await newEnvironment(root);
    const ids = Array.from({ length: 6000 }, (_, i) => `group ${i}`);
    for (let i = 0; i < ids.length; i += 500) await importGroups(root, environment, ids.slice(i, i + 500));
    const pagesRead = async () =>
      Number(/ugs_redis_duration_seconds_count\{operation="read-events"\} (\d+)/.exec(await metrics(server.url))?.[1]);
    const end = new AbortController();
    closeLater(() => end.abort());
    const slow = root
      .watchEvents({ environment, start: Start.BEGINNING }, { signal: end.signal })
      [Symbol.asyncIterator]();
    await slow.next();
    let last = -1;
    await waitFor("the service stops reading events", async () => {
      const [before, now] = [last, await pagesRead()];
      last = now;
      await pause(200);
      return before === now;
    });
    expect(last).toBeLessThan(ids.length / EVENTS_PAGE / 2);
    const fast = watch(client(server.url), { environment, start: Start.BEGINNING });
    await fast.seen(ids.length + 1);
    const seen: string[] = [];
    while (seen.length < ids.length) {
      const { content } = (await slow.next()).value as WatchEventsResponse;
      if (content.case === "event") seen.push(content.value.id);
    }
    expect(seen).toEqual(
      fast
        .events()
        .slice(1)
        .map(({ id }) => id),
    );
  });
});

describeWithRedis("streams of events with Redis", () => {
  it("a client with a cursor can continue a stream on another worker", async () => {
    const redis = await newRedis();
    const servers = await Promise.all([
      newServer({ redisUrl: redis.url, env: ADMIN_ENV }),
      newServer({ redisUrl: redis.url, env: ADMIN_ENV }),
    ]);
    const [one, other] = servers.map(({ url }) => client(url)) as [Admin, Admin];
    const environment = await newEnvironment(one);
    const first = watch(one, { environment });
    await first.isOpen();
    await importGroups(other, environment, ["a"]);
    expect(await first.seen(1)).toEqual(["user_group.created a"]);
    await importGroups(one, environment, ["b"]);
    const second = watch(other, { environment, cursor: first.cursor() });
    expect(await second.seen(1)).toEqual(["user_group.created b"]);
  });
});
