import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { type MetricsMessage, metricsOfAllWorkers } from "./worker-metrics.ts";

/** A supervisor that answers as the test says. */
function supervisor(answer: (question: MetricsMessage, reply: (message: unknown) => void) => void, error?: Error) {
  const emitter = new EventEmitter();
  const reply = (message: unknown) => void emitter.emit("message", message);
  const send = (question: unknown, _handle: undefined, _options: undefined, done: (error: Error | null) => void) => {
    done(error ?? null);
    answer(question as MetricsMessage, reply);
    return true;
  };
  return Object.assign(emitter, { send });
}

it("takes the answer to its own question", async () => {
  const channel = supervisor(({ id }, reply) => {
    reply({ kind: "metrics", id: id + 1, text: "another's" });
    reply(undefined);
    reply({ kind: "metrics", id, text: "mine" });
  });
  expect(await metricsOfAllWorkers(channel)).toBe("mine");
  expect(channel.listenerCount("message")).toBe(0);
});

it("does not wait for a supervisor that does not answer", async () => {
  const channel = supervisor(() => {});
  expect(await metricsOfAllWorkers(channel, 20)).toBeUndefined();
  expect(channel.listenerCount("message")).toBe(0);
});

it("does not wait for one that cannot be reached", async () => {
  expect(await metricsOfAllWorkers(supervisor(() => {}, new Error("closed")))).toBeUndefined();
});
