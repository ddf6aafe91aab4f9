import { connect as connectHttp2, constants } from "node:http2";
import { afterAll, beforeAll, expect, it } from "vitest";
import { dispatch } from "../src/transport/http/dispatch.ts";
import { openPort, type Port } from "../src/transport/http/port.ts";
import { pause } from "./support/wait.ts";

const served: number[] = [];
let port: Port;

beforeAll(async () => {
  const handlers = dispatch({
    find: () => ({
      isTooLong: () => false,
      serve: async ({ body }) => {
        served.push(body.byteLength);
        return { status: 200, headers: {}, body: new Uint8Array(0) };
      },
    }),
    arrivalTimeoutMs: 200,
  });
  port = await openPort({ host: "127.0.0.1", port: 0 }, handlers);
});
afterAll(() => port.destroy());

/** Sends two pieces of a body, and its end if it is to have one; resolves with the code that the stream closed with. */
async function upload(isWhole: boolean): Promise<number | undefined> {
  const session = connectHttp2(port.url);
  session.on("error", () => {});
  const stream = session.request({ ":method": "POST", ":path": "/" }, { endStream: false });
  stream.on("error", () => {});
  stream.resume();
  const closed = new Promise<number | undefined>((resolve) => stream.once("close", () => resolve(stream.rstCode)));
  stream.write(Buffer.alloc(20_000));
  await pause(20);
  stream.write(Buffer.alloc(20_000));
  if (isWhole) stream.end();
  const code = await closed;
  session.destroy();
  return code;
}

it("resets an HTTP/2 request whose body does not arrive in time, and does not serve it", async () => {
  expect(await upload(false)).toBe(constants.NGHTTP2_CANCEL);
  expect(served).toEqual([]);
});

it("serves one whose body does", async () => {
  expect(await upload(true)).toBe(constants.NGHTTP2_NO_ERROR);
  expect(served).toEqual([40_000]);
});
