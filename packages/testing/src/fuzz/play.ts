import type { Socket } from "node:net";
import { openWire } from "../attacks/wire.ts";
import { FLAG, FRAME, FrameReader } from "../http2-frames.ts";
import { pause } from "../wait.ts";
import type { Script } from "./script.ts";

/** How long a connection may take to be made, and a valid exchange to be answered, in milliseconds. */
const PATIENCE_MS = 20_000;
/** How long an answer to what is not valid is waited for, in milliseconds: it may come or not. */
const LINGER_MS = 30;

/** Plays a script on a connection of its own; gives why it failed, if an answer was due. */
export async function play(url: string, script: Script): Promise<string | undefined> {
  const wire = await Promise.race([openWire(url, script.protocol).catch(() => {}), pause(PATIENCE_MS)]);
  if (!wire) return "no connection was made";
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
  return due !== undefined && came < due ? `${came} of ${due} answers came` : undefined;
}

/** Writes a packet, and lets it leave. */
function written(socket: Socket, bytes: Buffer): Promise<void> {
  if (!socket.writable) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      socket.off("close", done);
      setImmediate(resolve);
    };
    socket.once("close", done);
    socket.write(bytes, done);
  });
}

/** TLS ends with a reset where TCP does below it. */
function reset(socket: Socket): void {
  if ("encrypted" in socket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Counts answers as they come: those that have begun. */
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
    // Not enough to be counted twice.
    tail = text.slice(-12);
  });
  return () => count;
}
