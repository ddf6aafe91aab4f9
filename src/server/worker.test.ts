import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { answer, ask, type Channel, type MetricsMessage } from "./worker.ts";

/** The two ends of a channel. What one sends, the other is told. @param error of sending */
function channel(error?: Error): [near: Channel & EventEmitter, far: Channel & EventEmitter] {
  const ends = [new EventEmitter(), new EventEmitter()] as const;
  const sendTo =
    (end: EventEmitter) => (message: unknown, _h: undefined, _o: undefined, done: (e: Error | null) => void) => {
      done(error ?? null);
      // Messages are copied: what is undefined is lost.
      return error === undefined && end.emit("message", JSON.parse(JSON.stringify(message)));
    };
  return [Object.assign(ends[0], { send: sendTo(ends[1]) }), Object.assign(ends[1], { send: sendTo(ends[0]) })];
}

it("takes the answer to its own question", async () => {
  const [near, far] = channel();
  far.on("message", ({ id }: MetricsMessage) => {
    near.emit("message", undefined);
    near.emit("message", { kind: "own metrics", id: id + 1, text: "another's" });
    near.emit("message", { kind: "all metrics", id, text: "of another kind" });
  });
  answer(far, "own metrics", async () => "mine");
  expect(await ask(near, "own metrics", 10_000)).toBe("mine");
  expect(near.listenerCount("message")).toBe(0);
});

it("is told when there is no answer", async () => {
  for (const none of [async () => undefined, () => Promise.reject(new Error("no"))]) {
    const [near, far] = channel();
    answer(far, "own metrics", none);
    const asked = performance.now();
    expect(await ask(near, "own metrics", 60_000)).toBeUndefined();
    expect(performance.now() - asked).toBeLessThan(60_000);
  }
});

it("does not wait for a process that does not answer", async () => {
  const [near] = channel();
  expect(await ask(near, "own metrics", 20)).toBeUndefined();
  expect(near.listenerCount("message")).toBe(0);
});

it("does not wait for one that cannot be reached", async () => {
  const [near] = channel(new Error("closed"));
  expect(await ask(near, "own metrics", 10_000)).toBeUndefined();
});
