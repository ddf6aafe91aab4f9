import type { EventEmitter } from "node:events";

/** A worker's request to the supervisor, and its response. */
export interface MetricsMessage {
  readonly kind: "metrics";
  readonly id: number;
  /** In a response: the metrics; absent when they could not be collected. */
  readonly text?: string;
}

/** A worker's channel to its supervisor; `process` is one. */
export type SupervisorChannel = Pick<EventEmitter, "on" | "off"> & {
  send?(message: unknown, handle: undefined, options: undefined, callback: (error: Error | null) => void): boolean;
};

/** How long the supervisor may take, in milliseconds: a little more than it waits for its workers. */
const TIMEOUT_MS = 6000;

let questions = 0;

/** Requests the metrics of all workers; undefined when the supervisor cannot collect them, or not in time. */
export function metricsOfAllWorkers(
  channel: SupervisorChannel,
  timeoutMs: number = TIMEOUT_MS,
): Promise<string | undefined> {
  const id = ++questions;
  return new Promise((resolve) => {
    const answer = (text: string | undefined) => {
      clearTimeout(timer);
      channel.off("message", onMessage);
      resolve(text);
    };
    const onMessage = (message: MetricsMessage) => {
      if (message?.kind === "metrics" && message.id === id) answer(message.text);
    };
    const timer = setTimeout(answer, timeoutMs, undefined);
    channel.on("message", onMessage);
    channel.send?.({ kind: "metrics", id } satisfies MetricsMessage, undefined, undefined, (error) => {
      if (error) answer(undefined);
    });
  });
}
