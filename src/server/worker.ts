import type { EventEmitter } from "node:events";
import type { Sample } from "../observability/history.ts";

/* The messages between a supervisor and its worker processes. */

export interface WorkerStart {
  /** The number of the worker, from 1. A replacement gets a new number. */
  readonly number: number;
  /** On Deno: the ports on which every worker listens. Undefined on Node, where `node:cluster` shares the ports. */
  readonly ports?: { readonly port: number; readonly metricsPort: number | undefined; readonly reusePort: true };
}

/** A message from a worker to the supervisor. The supervisor sends no response. */
export type Notice =
  // The worker listens, but still waits for Redis.
  | { readonly kind: "waiting" }
  | { readonly kind: "listening"; readonly url: string; readonly metricsUrl: string | undefined }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "sample"; readonly sample: Sample };

/**
 * A request for data, or its response. A worker requests the metrics of all workers or the history from the supervisor.
 * The supervisor requests from each worker the metrics of only that worker.
 */
export interface DataMessage {
  readonly kind: "all metrics" | "own metrics" | "history";
  readonly id: number;
  readonly query?: string | undefined;
  /** The data in a response. Absent if no data are available. */
  readonly text?: string | undefined;
}

/** A channel to the other process. In a worker, this is `process`. In a supervisor, this is the child process. */
export type Channel = Pick<EventEmitter, "on" | "off"> & {
  send?(message: object, handle: undefined, options: undefined, callback: (error: Error | null) => void): boolean;
};

/** The workers cannot start. The message contains the reason. */
export class WorkersFailed extends Error {}

const ARGUMENT = "--worker=";

export function workerArgument(start: WorkerStart): string {
  return ARGUMENT + JSON.stringify(start);
}

/** The number and the ports of this worker. Undefined if this process is not a worker. */
export const worker = readArgument(process.argv[2]);

function readArgument(argument: string | undefined): WorkerStart | undefined {
  // If this process has no channel to a supervisor, a user has typed the argument. In this case, the service rejects
  // the argument as unknown.
  if (!process.send || !argument?.startsWith(ARGUMENT)) return undefined;
  return JSON.parse(argument.slice(ARGUMENT.length)) as WorkerStart;
}

/** Returns whether this process logs the messages that every worker would log identically. */
export function isReporter(): boolean {
  return worker === undefined || worker.number === 1;
}

/** Sends a notice to the supervisor. If the start has failed, closes the channel after the notice. */
export function notifySupervisor(message: Notice): void {
  // Close the channel after a failure, because an open channel would keep the worker alive.
  send(process, message, () => message.kind === "failed" && process.disconnect());
}

let requests = 0;

/**
 * Requests data from the other process. Returns undefined if the other process has no data, cannot be reached, or does
 * not answer within `timeoutMs`.
 */
export function requestData(
  channel: Channel,
  kind: DataMessage["kind"],
  timeoutMs: number,
  query?: string,
): Promise<string | undefined> {
  const id = ++requests;
  return new Promise((resolve) => {
    const settle = (text: string | undefined) => {
      clearTimeout(timer);
      channel.off("message", onMessage);
      resolve(text);
    };
    const onMessage = (message: DataMessage | undefined) => {
      if (message?.kind === kind && message.id === id) settle(message.text);
    };
    const timer = setTimeout(settle, timeoutMs, undefined);
    channel.on("message", onMessage);
    send(channel, { kind, id, query }, (error) => error && settle(undefined));
  });
}

/** Answers the requests of the other process. @param read returns undefined or rejects if no data are available */
export function answerData(
  channel: Channel,
  kind: DataMessage["kind"],
  read: (query: string | undefined) => Promise<string | undefined>,
): void {
  channel.on("message", (message: DataMessage | undefined) => {
    if (message?.kind !== kind) return;
    const reply = (text: string | undefined) => send(channel, { kind, id: message.id, text }, () => {});
    read(message.query).then(reply, () => reply(undefined));
  });
}

/**
 * @param done called when the message is sent, or with an error if the channel is closed. Without this callback, the
 *   channel would emit the error
 */
function send(channel: Channel, message: Notice | DataMessage, done: (error: Error | null) => void): void {
  channel.send?.(message, undefined, undefined, done);
}
