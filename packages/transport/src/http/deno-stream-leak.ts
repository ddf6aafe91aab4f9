import type { ServerHttp2Stream } from "node:http2";

/** The request of node:http2 to shut down the writing side of a stream. */
interface ShutdownRequest {
  oncomplete(status: number): void;
}

/** The native handle of an HTTP/2 stream. */
interface StreamHandle {
  shutdown(request: ShutdownRequest): number;
  /** Keeps the request alive for as long as the handle. */
  [kRequest]?: ShutdownRequest;
}

const kRequest = Symbol("shutdown request");

let isDone = !("Deno" in globalThis);

/**
 * Works around a memory leak of Deno 2.9.3: it never frees an HTTP/2 stream that is closed before its response is
 * written, nor the response, even after the connection has closed. The runtime holds the shutdown request, the request
 * holds the stream, and the stream holds its native handle. A client that reads no responses could fill the memory. This
 * makes the request hold the stream weakly; while the stream is open, its connection holds it. Does nothing on other
 * runtimes. `kHandle` is private: a case of test/runtime-internals.test.ts fails when it is gone.
 *
 * @param stream any stream; all streams of the process are patched through its prototype
 */
export function patchDenoStreamLeak(stream: ServerHttp2Stream): void {
  if (isDone) return;
  isDone = true;
  const symbol = Object.getOwnPropertySymbols(stream).find(({ description }) => description === "kHandle");
  const handle = symbol && (stream as unknown as { [symbol: symbol]: StreamHandle })[symbol];
  const handles = handle && (Object.getPrototypeOf(handle) as StreamHandle);
  // This is another version of Deno.
  if (typeof handles?.shutdown !== "function") return;
  const { shutdown } = handles;
  handles.shutdown = function (this: StreamHandle, request: ShutdownRequest): number {
    this[kRequest] = request;
    const weak = new WeakRef(this);
    const oncomplete = (status: number) => weak.deref()?.[kRequest]?.oncomplete(status);
    return shutdown.call(this, { oncomplete });
  };
}
