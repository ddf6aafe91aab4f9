/** What a runtime calls it when a caller is gone in the middle of its messages; it may say so before the signal does. */
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
