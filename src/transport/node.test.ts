import { connect as connectHttp2 } from "node:http2";
import { expect, it } from "vitest";
import { TalkService } from "../../test/transport/gen/talk/v1/talk_pb.ts";
import { serveNode } from "./node.ts";

it("counts a call whose client is gone until it has ended", async () => {
  let begun = 0;
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const server = await serveNode(
    {
      routes: ({ rpc }) =>
        rpc(TalkService.method.say, async () => {
          begun++;
          await finished;
          return {};
        }),
      maxCalls: { max: 1 },
    },
    { host: "127.0.0.1", port: 0, tls: undefined },
  );
  const session = connectHttp2(server.url);
  session.on("error", () => {});
  const headers = { ":method": "POST", ":path": "/talk.v1.TalkService/Say", "content-type": "application/json" };
  const first = session.request(headers);
  first.on("error", () => {}).end("{}");
  await expect.poll(() => begun).toBe(1);
  first.close();
  await new Promise((resolve) => first.once("close", resolve));
  const statusOfAnother = async () => {
    const stream = session.request(headers);
    stream.end("{}").resume();
    const status = await new Promise((resolve) => stream.once("response", (answer) => resolve(answer[":status"])));
    return status;
  };
  expect(await statusOfAnother()).toBe(429);
  finish();
  await expect.poll(statusOfAnother).toBe(200);
  session.destroy();
  server.destroy();
});
