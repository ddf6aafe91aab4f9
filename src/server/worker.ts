import type { EventEmitter } from "node:events";

/*
 * The messages between a supervisor and its worker processes, and the workers' side of them.
 */

/** What a worker process is told on its command line. */
export interface WorkerStart {
  /** Counts the workers of a supervisor, from 1. One that takes the place of another has a number of its own. */
  readonly number: number;
  /** On Deno: the ports that the workers share, which settings may leave to the system. */
  readonly ports?: { readonly port: number; readonly metricsPort: number | undefined; readonly reusePort: true };
}

/** What a worker reports about its start. */
export type StartMessage =
  // It listens, and serves nobody until Redis comes.
  | { readonly kind: "waiting" }
  | { readonly kind: "listening"; readonly url: string; readonly metricsUrl: string | undefined }
  | { readonly kind: "failed"; readonly reason: string };

/**
 * A question to the other process, and its answer: a worker asks for the metrics of all workers, a supervisor for those
 * of one.
 */
export interface MetricsMessage {
  readonly kind: "all metrics" | "own metrics";
  readonly id: number;
  /** Of an answer; absent when there is none to give. */
  readonly text?: string | undefined;
}

/** A channel to another process: the `process` of a worker, or the child process of a supervisor. */
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

/** What this process was told as a worker; undefined in one that has no supervisor. */
export const worker = readArgument(process.argv[2]);

function readArgument(argument: string | undefined): WorkerStart | undefined {
  // A person who gives the argument has no channel, and is told that it is none.
  if (!process.send || !argument?.startsWith(ARGUMENT)) return undefined;
  return JSON.parse(argument.slice(ARGUMENT.length)) as WorkerStart;
}

/** Whether this process reports what concerns all workers. */
export function isReporter(): boolean {
  return worker === undefined || worker.number === 1;
}

/** Reports to the supervisor how the start of this worker went. A worker that failed to start leaves its supervisor. */
export function notifySupervisor(message: StartMessage): void {
  // Once its channel is closed, nothing keeps a failed worker alive.
  send(process, message, () => message.kind === "failed" && process.disconnect());
}

let questions = 0;

/** Asks the other process; undefined when it cannot tell, or not in time. @param timeoutMs in milliseconds */
export function ask(channel: Channel, kind: MetricsMessage["kind"], timeoutMs: number): Promise<string | undefined> {
  const id = ++questions;
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

/** Answers the questions of the other process. @param answerOf gives undefined, or rejects, when there is no answer */
export function answer(
  channel: Channel,
  kind: MetricsMessage["kind"],
  answerOf: () => Promise<string | undefined>,
): void {
  channel.on("message", (message: MetricsMessage | undefined) => {
    if (message?.kind !== kind) return;
    const reply = (text: string | undefined) => send(channel, { kind, id: message.id, text }, () => {});
    answerOf().then(reply, () => reply(undefined));
  });
}

/** @param done called with the error of a channel that is closed, which would otherwise be an event */
function send(channel: Channel, message: StartMessage | MetricsMessage, done: (error: Error | null) => void): void {
  channel.send?.(message, undefined, undefined, done);
}
