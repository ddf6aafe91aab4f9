import { Readable } from "node:stream";
import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ADMIN_ENV, ADMIN_TOKEN, newName } from "../../../test/support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "../../../test/support/opened.ts";
import {
  type ConnectError,
  createUserGroupServiceClient,
  type Event,
  Role,
  reasonOf,
  WatchEventsRequest_Start as Start,
  type WatchOptions,
  watchEvents,
} from "../src/index.ts";

it("if a stream ends without a response, watchEvents pauses before the next stream", async () => {
  const end = new AbortController();
  let streams = 0;
  const admin = {
    watchEvents() {
      if (++streams === 3) end.abort();
      return Readable.from([]);
    },
  };
  const pauses: number[] = [];
  const options = { signal: end.signal, onRetry: (_: ConnectError, pauseMs: number) => void pauses.push(pauseMs) };
  for await (const _ of watchEvents(admin as never, {}, options)) expect.fail("a response");
  expect(pauses).toHaveLength(2);
  expect(Math.min(...pauses)).toBeGreaterThan(0);
});

describeWithRedis("watchEvents", () => {
  const open = async () => {
    const redis = await newRedis();
    const newWorker = (port = 0) => newServer({ redisUrl: redis.url, env: { ...ADMIN_ENV, PORT: String(port) } });
    const server = await newWorker();
    const client = (token = ADMIN_TOKEN) => {
      const created = createUserGroupServiceClient({ url: server.url, token });
      closeLater(() => created.close());
      return created.admin;
    };
    const admin = client();
    const environment = { name: newName() };
    await admin.createEnvironment({ environment });
    const importGroup = (providedId: string) =>
      admin.importUserGroups({ environment, userGroups: [{ providedId, name: "x" }] });
    return { server, newWorker, admin, client, environment, importGroup };
  };

  /** Collects the events of `watchEvents` until the test ends. */
  const collect = (admin: Parameters<typeof watchEvents>[0], request: object, options: WatchOptions = {}) => {
    const end = new AbortController();
    closeLater(() => end.abort());
    const events: Event[] = [];
    let cursor = "";
    const read = async () => {
      for await (const response of watchEvents(admin, request, { signal: end.signal, ...options })) {
        if (response.content.case === "event") events.push(response.content.value);
        cursor = response.cursor;
      }
    };
    const ended = read();
    ended.catch(() => {});
    return {
      ids: () => events.map(({ userGroupId }) => userGroupId),
      ended,
      end: () => end.abort(),
      cursor: () => cursor,
    };
  };

  it("watchEvents continues after the service was killed and restarted, and ends when its signal is aborted", async () => {
    const { server, newWorker, admin, environment, importGroup } = await open();
    const retried: ConnectError[] = [];
    const stream = collect(admin, { environment, start: Start.NOW }, { onRetry: (failure) => retried.push(failure) });
    await waitFor("the stream is open", () => stream.cursor() !== "");
    await importGroup("a");
    await waitFor("the first event", () => stream.ids().length === 1);
    server.signal("SIGKILL");
    await server.stop();
    await waitFor("the iterator retries", () => retried.length > 0);
    await newWorker(Number(new URL(server.url).port));
    await importGroup("b");
    await waitFor("the second event", () => stream.ids().length === 2);
    expect(stream.ids()).toEqual(["a", "b"]);
    stream.end();
    await stream.ended;
  });

  it("throws if the API token is revoked, or if the cursor belongs to another environment", async () => {
    const { admin, client, environment } = await open();
    const { token, apiToken } = await admin.createApiToken({ environment, displayName: "x", role: Role.ADMIN });
    const stream = collect(client(token), {});
    await waitFor("the stream is open", () => stream.cursor() !== "");
    await admin.revokeApiToken({ environment, apiTokenId: apiToken?.id ?? "" });
    expect(await stream.ended.catch(reasonOf)).toBe("API_TOKEN_UNKNOWN");
    const other = { name: newName() };
    await admin.createEnvironment({ environment: other });
    const expired = collect(admin, { environment: other, cursor: stream.cursor() });
    expect(await expired.ended.catch(reasonOf)).toBe("EVENT_CURSOR_EXPIRED");
  });
});
