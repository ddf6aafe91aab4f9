import type { ServerHttp2Stream } from "node:http2";
import { privateValue } from "./private-value.ts";

interface ShutdownRequest {
  oncomplete(status: number): void;
}

interface StreamHandle {
  shutdown(request: ShutdownRequest): number;
  /** The shutdown request, which stays in memory as long as the handle. */
  [kRequest]?: ShutdownRequest;
}

const kRequest = Symbol("shutdown request");

let isDone = !("Deno" in globalThis);

/**
 * Works around a memory leak of Deno 2.9.3. Deno never frees an HTTP/2 stream or its response if the stream closes
 * before the response is written. A client that reads no responses could fill the memory.
 *
 * Cause: the runtime references the shutdown request, the request references the stream, and the stream references its
 * native handle. The patch makes the reference from the request to the stream weak. It changes the prototype of the
 * handle, so one call with any stream applies to all streams.
 */
export function patchDenoStreamLeak(stream: ServerHttp2Stream): void {
  if (isDone) return;
  isDone = true;
  const handle = privateValue(stream, "kHandle") as StreamHandle | undefined;
  const handles = handle && (Object.getPrototypeOf(handle) as StreamHandle);
  // If this version of Deno has no `shutdown` on the prototype of the handle, do nothing.
  if (typeof handles?.shutdown !== "function") return;
  const { shutdown } = handles;
  handles.shutdown = function (this: StreamHandle, request: ShutdownRequest): number {
    this[kRequest] = request;
    const weak = new WeakRef(this);
    const oncomplete = (status: number) => weak.deref()?.[kRequest]?.oncomplete(status);
    return shutdown.call(this, { oncomplete });
  };
}
