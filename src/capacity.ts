/*
 * What callers may use of a worker. Its transport bounds further what they may use of HTTP, and has the defaults of its
 * option `limits`.
 */

/** The maximum size of a request message, in bytes, before and after decompression. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/**
 * The same for methods that need no API token, in bytes. Their requests hold only names, and partial messages on many
 * streams must not use much memory.
 */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/**
 * The maximum number of calls in flight. A worker answers several thousand calls a second, so it answers this many in
 * about half a second. With a lower limit, one event loop turn of a burst would exceed it, and the worker would spend
 * its time on refusals.
 */
export const MAX_CALLS = 4096;

/**
 * How many streaming calls there may be, which are Watch and reflection and need no API token, together with slow bodies of
 * calls that need none; and how long a stream may last. gRPC clients that watch health call again when a stream ends.
 */
export const STREAMS = { max: 1000, lifetimeMs: 600_000 };
