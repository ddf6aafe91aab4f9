import type { Socket } from "node:net";
import { openWire } from "@user-group-service/testing/attacks/wire";
import { FLAG, FRAME, FrameReader } from "@user-group-service/testing/http2-frames";
import { pause } from "@user-group-service/testing/wait";

/** The steps of the fuzzer on one connection. */
export interface Script {
  readonly name: string;
  readonly protocol: "h2" | "http/1.1";
  readonly steps: readonly Step[];
  /** Number of responses that the server must send. Undefined if the exchange is mutated. */
  readonly answers?: number;
}

export type Step =
  | { readonly kind: "send"; readonly bytes: Buffer }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "end" }
  | { readonly kind: "reset" };

/** Formats a script with its bytes in hexadecimal. Cuts the text off after 6,000 characters. */
export function describeScript({ name, protocol, steps }: Script): string {
  const lines = steps.map((step) => {
    if (step.kind === "send") return `  send ${step.bytes.toString("hex")}`;
    return step.kind === "wait" ? `  wait ${step.ms} ms` : `  ${step.kind}`;
  });
  return [`${name} (${protocol})`, ...lines].join("\n").slice(0, 6000);
}

/** Maximum wait for a connection, and for the responses to a valid exchange, in milliseconds. */
const PATIENCE_MS = 20_000;
/** Maximum wait for a response to an invalid exchange, in milliseconds. Such a response may never arrive. */
const LINGER_MS = 30;

/** Runs a script on its own connection. @returns a description of the failure. Undefined if there is no failure */
export async function play(url: string, script: Script): Promise<string | undefined> {
  const wire = await Promise.race([openWire(url, script.protocol).catch(() => {}), pause(PATIENCE_MS)]);
  if (!wire) return "the connection could not be opened";
  const { socket } = wire;
  const answers = countAnswers(socket, script.protocol);
  for (const step of script.steps) {
    if (wire.isClosed) break;
    if (step.kind === "send") await written(socket, step.bytes);
    else if (step.kind === "wait") await pause(step.ms);
    else if (step.kind === "end") socket.end();
    else reset(socket);
  }
  const due = script.answers;
  const patience = due === undefined ? LINGER_MS : PATIENCE_MS;
  const isDone = () => wire.isClosed || (due !== undefined && answers() >= due);
  const started = performance.now();
  while (!isDone() && performance.now() - started < patience) await pause(2);
  const came = answers();
  socket.destroy();
  if (!wire.isClosed) await new Promise((resolve) => socket.once("close", resolve));
  return due !== undefined && came < due ? `${came} of ${due} responses arrived` : undefined;
}

/** Writes bytes, and waits until the kernel has accepted them. */
function written(socket: Socket, bytes: Buffer): Promise<void> {
  if (!socket.writable) return Promise.resolve();
  return new Promise((resolve) => socket.write(bytes, () => setImmediate(resolve)));
}

/**
 * Resets the TCP connection. If the connection uses TLS, Node cannot send a reset. In this case, destroys the socket.
 */
function reset(socket: Socket): void {
  if ("encrypted" in socket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Returns a function that returns the number of responses that have begun. */
function countAnswers(socket: Socket, protocol: Script["protocol"]): () => number {
  if (protocol === "h2") {
    const answered = new Set<number>();
    const reader = new FrameReader();
    socket.on("data", (chunk: Buffer) => {
      for (const { type, flags, stream } of reader.push(chunk)) {
        if (type === FRAME.headers && flags & FLAG.endHeaders) answered.add(stream);
      }
    });
    return () => answered.size;
  }
  let count = 0;
  let tail = "";
  socket.on("data", (chunk: Buffer) => {
    const text = tail + chunk.toString("latin1");
    count += text.match(/HTTP\/1\.1 [2-5]\d\d /g)?.length ?? 0;
    // Keep the end of the text, because a match can begin in this chunk and end in the next chunk. The kept end is too
    // short for a whole match, so no response counts twice.
    tail = text.slice(-12);
  });
  return () => count;
}
