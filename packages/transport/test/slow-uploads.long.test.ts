import { connect as connectHttp2 } from "node:http2";
import { closeLater } from "@user-group-service/testing/opened";
import { pause } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { type NodeServer, openPort } from "../src/http/port.ts";
import { bareRefusal, type Refusal } from "../src/protocol/refusals.ts";

/** A port with this deadline for bodies, and the outcome of its requests. */
async function newPort(arrivalTimeoutMs: number) {
  const served: number[] = [];
  const refusals: Refusal[] = [];
  const port = await openPort({
    host: "127.0.0.1",
    port: 0,
    find: () => ({
      maxBytes: Number.POSITIVE_INFINITY,
      serve: async ({ body }) => {
        served.push(body.byteLength);
        return { status: 200, headers: {}, body: new Uint8Array(0) };
      },
    }),
    refuse: (refusal) => {
      refusals.push(refusal);
      return bareRefusal(refusal);
    },
    limits: { headerTimeoutMs: 1000, arrivalTimeoutMs },
  });
  closeLater(() => port.destroy());
  return { port, served, refusals };
}

/** Sends two pieces of a body and optionally its end. Resolves with the status of the answer. */
async function upload({ url }: NodeServer, isWhole: boolean): Promise<number | undefined> {
  const session = connectHttp2(url);
  session.on("error", () => {});
  const stream = session.request({ ":method": "POST", ":path": "/" }, { endStream: false });
  stream.on("error", () => {});
  stream.resume();
  const answered = new Promise<number | undefined>((resolve) =>
    stream.once("response", (headers) => resolve(headers[":status"])),
  );
  stream.write(Buffer.alloc(20_000));
  await pause(20);
  stream.write(Buffer.alloc(20_000));
  if (isWhole) stream.end();
  const status = await answered;
  session.destroy();
  return status;
}

it("refuses an HTTP/2 request whose body misses its deadline, names the deadline, and does not serve the request", async () => {
  const { port, served, refusals } = await newPort(200);
  expect(await upload(port, false)).toBe(408);
  expect(served).toEqual([]);
  expect(refusals).toEqual([{ kind: "request-timeout", headerMs: 1000, requestMs: 200 }]);
});

it("serves a request whose body arrives in time", async () => {
  const { port, served } = await newPort(10_000);
  expect(await upload(port, true)).toBe(200);
  expect(served).toEqual([40_000]);
});
