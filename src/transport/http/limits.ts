import type { Refusal } from "../protocol/refusals.ts";

/** How large the header fields of a request may be, in bytes. */
export const MAX_HEADER_BYTES = 32 * 1024;

/** How long the header of an HTTP/1.1 request may take to arrive, in milliseconds. */
export const HEADER_TIMEOUT_MS = 15_000;

/** How long a request may take to arrive, its body included, in milliseconds. */
export const REQUEST_TIMEOUT_MS = 30_000;

/** How long a caller may take to read an answer, in milliseconds. */
export const READ_TIMEOUT_MS = 60_000;

/** How much is read of a request that is answered already, in bytes. */
export const MAX_DROPPED_BYTES = 16 * 1024 * 1024;

export const HEADER_TOO_LARGE: Refusal = { kind: "header-too-large", limit: MAX_HEADER_BYTES };

export const REQUEST_TIMEOUT: Refusal = {
  kind: "request-timeout",
  headerMs: HEADER_TIMEOUT_MS,
  requestMs: REQUEST_TIMEOUT_MS,
};
