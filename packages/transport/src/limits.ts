import type { Refusal } from "./protocol/refusals.ts";

/** The maximum size of a request's headers, in bytes. */
export const MAX_HEADER_BYTES = 32 * 1024;

/** How long the headers of an HTTP/1.1 request may take to arrive, in milliseconds. */
export const HEADER_TIMEOUT_MS = 15_000;

/** How long a request may take to arrive, including its body, in milliseconds. */
export const REQUEST_TIMEOUT_MS = 30_000;

/** The same for a request that anyone may make, in milliseconds: such requests hold only names. */
export const OPEN_REQUEST_TIMEOUT_MS = 5000;

/** How long a client may take to read a response, in milliseconds. */
export const READ_TIMEOUT_MS = 60_000;

/** How much of an already answered request is read and discarded, in bytes. */
export const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/** The longest delay of setTimeout, in milliseconds: nearly 25 days. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The refusal of a request whose headers exceed `MAX_HEADER_BYTES`. */
export const HEADER_TOO_LARGE: Refusal = { kind: "header-too-large", limit: MAX_HEADER_BYTES };

/** The refusal of a request that did not arrive in time. */
export const REQUEST_TIMEOUT: Refusal & { readonly kind: "request-timeout" } = {
  kind: "request-timeout",
  headerMs: HEADER_TIMEOUT_MS,
  requestMs: REQUEST_TIMEOUT_MS,
};

/** The refusal of an `Expect` other than `100-continue`. */
export const EXPECTATION_FAILED: Refusal = { kind: "expectation-failed" };
