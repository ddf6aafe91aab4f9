import type { EventEmitter } from "node:events";

/*
 * The messages between a supervisor and its worker processes.
 */

/** The start options of a worker, from its command line. */
export interface WorkerStart {
  /** The number of the worker, from 1. A replacement gets a new number. */
  readonly number: number;
  /** On Deno: the ports that the workers share. The operating system may have selected them. */
  readonly ports?: { readonly port: number; readonly metricsPort: number | undefined; readonly reusePort: true };
}

/** The report of a worker about its start. */
export type StartMessage =
  // The worker listens, and waits for Redis.
  | { readonly kind: "waiting" }
  | { readonly kind: "listening"; readonly url: string; readonly metricsUrl: string | undefined }
  | { readonly kind: "failed"; readonly reason: string };

/**
 * A request to the other process, or its response. A worker requests the metrics of all workers, the supervisor those of one
 * worker.
 */
export interface MetricsMessage {
  readonly kind: "all metrics" | "own metrics";
  readonly id: number;
  /** The metrics in a response; absent if they are not available. */
  readonly text?: string | undefined;
}

/** A channel to the other process: `process` in a worker, the child process in a supervisor. */
export type Channel = Pick<EventEmitter, "on" | "off"> & {
  send?(message: object, handle: undefined, options: undefined, callback: (error: Error | null) => void): boolean;
};

/** The workers cannot start. The message says why. */
export class WorkersFailed extends Error {}

const ARGUMENT = "--worker=";

/** The argument that makes a process a worker. */
export function workerArgument(start: WorkerStart): string {
  return ARGUMENT + JSON.stringify(start);
}

/** The start options of this worker; undefined in a process without a supervisor. */
export const worker = readArgument(process.argv[2]);

function readArgument(argument: string | undefined): WorkerStart | undefined {
  // Without a channel, a person has written the argument. It is then rejected as unknown.
  if (!process.send || !argument?.startsWith(ARGUMENT)) return undefined;
  return JSON.parse(argument.slice(ARGUMENT.length)) as WorkerStart;
}

/** Whether this process logs the messages that concern all workers. */
export function isReporter(): boolean {
  return worker === undefined || worker.number === 1;
}

/** Reports the start of this worker to the supervisor. After a failed start, the worker closes its channel. */
export function notifySupervisor(message: StartMessage): void {
  // An open channel would keep a failed worker alive.
  send(process, message, () => message.kind === "failed" && process.disconnect());
}

let requests = 0;

/** Requests metrics from the other process; undefined if it has none, or after the timeout, in milliseconds. */
export function requestMetrics(
  channel: Channel,
  kind: MetricsMessage["kind"],
  timeoutMs: number,
): Promise<string | undefined> {
  const id = ++requests;
  return new Promise((resolve) => {
    const settle = (text: string | undefined) => {
      clearTimeout(timer);
      channel.off("message", onMessage);
      resolve(text);
    };
    const onMessage = (message: MetricsMessage | undefined) => {
      if (message?.kind === kind && message.id === id) settle(message.text);
    };
    const timer = setTimeout(settle, timeoutMs, undefined);
    channel.on("message", onMessage);
    send(channel, { kind, id }, (error) => error && settle(undefined));
  });
}

/** Answers the requests of the other process. @param metricsOf returns undefined or rejects if there are no metrics */
export function answerMetrics(
  channel: Channel,
  kind: MetricsMessage["kind"],
  metricsOf: () => Promise<string | undefined>,
): void {
  channel.on("message", (message: MetricsMessage | undefined) => {
    if (message?.kind !== kind) return;
    const reply = (text: string | undefined) => send(channel, { kind, id: message.id, text }, () => {});
    metricsOf().then(reply, () => reply(undefined));
  });
}

/** @param done called with the error of a closed channel. Without it, the channel would emit the error */
function send(channel: Channel, message: StartMessage | MetricsMessage, done: (error: Error | null) => void): void {
  channel.send?.(message, undefined, undefined, done);
}
