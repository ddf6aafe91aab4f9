/**
 * Error codes of the runtimes for a client that disconnected in the middle of a stream. Such an error may come before
 * the signal aborts.
 */
export const CONNECTION_LOST: ReadonlySet<unknown> = new Set([
  "ABORT_ERR",
  "ECONNRESET",
  "EPIPE",
  "ERR_HTTP2_INVALID_STREAM",
  "ERR_HTTP2_STREAM_CANCEL",
  "ERR_HTTP2_STREAM_ERROR",
  "ERR_STREAM_DESTROYED",
  "ERR_STREAM_PREMATURE_CLOSE",
]);
