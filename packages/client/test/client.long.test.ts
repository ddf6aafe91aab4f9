import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { closeLater, newListener } from "@user-group-service/testing/opened";
import { repeat } from "@user-group-service/testing/repeat";
import { expect, it } from "vitest";
import { describeWithRedis } from "../../../test/support/opened.ts";
import { CALLS, restartUnder, TIMEOUT_MS } from "../../../test/support/restarts.ts";
import { Code, createUserGroupServiceClient } from "../src/index.ts";

const LOOPS = 24;

describeWithRedis("the client, while a service restarts under load", () => {
  it(`loses none of ${CALLS} calls that are safe to repeat`, async () => {
    const failures = await restartUnder(({ url, token }) => {
      const client = createUserGroupServiceClient({ url, token, timeoutMs: TIMEOUT_MS });
      closeLater(() => client.close());
      let answered = 0;
      const loop = (i: number) => {
        const userGroupId = `steady-${i}`;
        const group = { case: "userGroupId", value: userGroupId } as const;
        const calls = [
          () => client.userGroups.getUserGroup({ userGroupId }),
          () => client.userGroups.rotateUserGroupToken({ group }),
          () => client.viewers.createViewerSession({ group, audience: "dashboards" }),
        ];
        let made = 0;
        return async () => {
          await calls[made++ % calls.length]?.();
          answered += 1;
        };
      };
      const calls = repeat(Array.from({ length: LOOPS }, (_, i) => loop(i)));
      return { answered: () => answered, end: () => calls.end() };
    });
    expect(failures).toEqual([]);
  });
});

it.each([
  ["an answer", 200, undefined],
  ["an error", 400, undefined],
  ["a compressed answer", 200, "gzip"],
  ["a compressed error", 400, "gzip"],
])("the client rejects %s of more than 64 MiB", async (_, status, coding) => {
  const zeros = Buffer.alloc(1024 * 1024);
  const chunk = coding ? gzipSync(zeros) : zeros;
  let sent = 0;
  const endless = createServer((_req, res) => {
    const type = status === 200 ? "application/proto" : "application/json";
    res.writeHead(status, { "content-type": type, ...(coding && { "content-encoding": coding }) });
    const more = () => {
      // Each chunk decompresses to 1 MiB, so 300 chunks of a compressed response exceed the limit of 64 MiB.
      if (coding && sent === 300) return void res.end();
      sent += 1;
      res.write(chunk, (error) => error ?? setImmediate(more));
    };
    more();
  });
  const client = createUserGroupServiceClient({ url: await newListener(endless), token: "anything-at-all" });
  closeLater(() => client.close());
  const before = process.memoryUsage().rss;
  const called = client.userGroups.getUserGroup({ userGroupId: "acme" });
  await expect(called).rejects.toMatchObject({ code: Code.ResourceExhausted });
  expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(400);
});
