import type { ServerHttp2Stream } from "node:http2";

/** What a stream of node:http2 asks of the runtime when it has nothing more to write. */
interface ShutdownRequest {
  oncomplete(status: number): void;
}

/** A stream of the runtime, as node:http2 has it. */
interface StreamHandle {
  shutdown(request: ShutdownRequest): number;
  /** Keeps the request for as long as the stream is there. */
  [kRequest]?: ShutdownRequest;
}

const kRequest = Symbol("shutdown request");

let isDone = !("Deno" in globalThis);

/**
 * Lets Deno's streams be collected that are closed before their answer has left. Deno 2.9.3 keeps them for good, with
 * all that was written to them, even when their connection is gone: the runtime holds the request to shut the writing
 * side down, which holds the stream, which holds what the runtime has of it. A caller who does not read answers could
 * fill the memory with them. Here the runtime is given a request that holds its stream weakly; while the stream is open
 * its connection holds it. Elsewhere this does nothing.
 *
 * @param stream any: what it does is for all streams of the process
 */
export function unrootStreams(stream: ServerHttp2Stream): void {
  if (isDone) return;
  isDone = true;
  const symbol = Object.getOwnPropertySymbols(stream).find(({ description }) => description === "kHandle");
  const handle = symbol && (stream as unknown as { [symbol: symbol]: StreamHandle })[symbol];
  const handles = handle && (Object.getPrototypeOf(handle) as StreamHandle);
  // Another version of Deno, which is left as it is.
  if (typeof handles?.shutdown !== "function") return;
  const { shutdown } = handles;
  handles.shutdown = function (this: StreamHandle, request: ShutdownRequest): number {
    this[kRequest] = request;
    const weak = new WeakRef(this);
    const oncomplete = (status: number) => weak.deref()?.[kRequest]?.oncomplete(status);
    return shutdown.call(this, { oncomplete });
  };
}
