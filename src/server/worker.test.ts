import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { answerData, type Channel, type DataMessage, requestData } from "./worker.ts";

/** @param error the error of every `send`. If it is undefined, `send` succeeds */
function channel(error?: Error): [near: Channel & EventEmitter, far: Channel & EventEmitter] {
  const ends = [new EventEmitter(), new EventEmitter()] as const;
  const sendTo =
    (end: EventEmitter) => (message: unknown, _h: undefined, _o: undefined, done: (e: Error | null) => void) => {
      done(error ?? null);
      // A channel between processes drops undefined fields.
      return error === undefined && end.emit("message", JSON.parse(JSON.stringify(message)));
    };
  return [Object.assign(ends[0], { send: sendTo(ends[1]) }), Object.assign(ends[1], { send: sendTo(ends[0]) })];
}

it("`requestData` accepts only the response to its own request", async () => {
  const [near, far] = channel();
  far.on("message", ({ id }: DataMessage) => {
    near.emit("message", undefined);
    near.emit("message", { kind: "own metrics", id: id + 1, text: "of another request" });
    near.emit("message", { kind: "all metrics", id, text: "of another kind" });
  });
  answerData(far, "own metrics", async () => "mine");
  expect(await requestData(near, "own metrics", 10_000)).toBe("mine");
  expect(near.listenerCount("message")).toBe(0);
});

it("`requestData` returns undefined if the other process has no metrics", async () => {
  for (const none of [async () => undefined, () => Promise.reject(new Error("no"))]) {
    const [near, far] = channel();
    answerData(far, "own metrics", none);
    const requested = performance.now();
    expect(await requestData(near, "own metrics", 60_000)).toBeUndefined();
    expect(performance.now() - requested).toBeLessThan(60_000);
  }
});

it("`requestData` returns undefined after the timeout", async () => {
  const [near] = channel();
  expect(await requestData(near, "own metrics", 20)).toBeUndefined();
  expect(near.listenerCount("message")).toBe(0);
});

it("`requestData` returns undefined immediately if the channel is closed", async () => {
  const [near] = channel(new Error("closed"));
  expect(await requestData(near, "own metrics", 10_000)).toBeUndefined();
});
