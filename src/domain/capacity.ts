/* Limits of a worker for its callers. The limits for HTTP are the defaults of the transport's option `limits`. */

/** The maximum size of a request message, in bytes, before and after decompression. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** The maximum size of a message for methods that need no API token, in bytes. It bounds the memory of streams. */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/** The maximum number of waiting and running calls of 20 KB each. A worker completes this many in about a second. */
export const MAX_CALLS = 16_384;

/** The maximum number of waiting requests for public signing keys, which need no API token. */
export const MAX_KEY_REQUESTS = 4096;

/**
 * The maximum number of open streams, and their maximum lifetime in milliseconds. Streams are WatchEvents, Watch of the
 * health service, reflection, and calls without an API token whose body arrives slowly. gRPC clients call Watch again
 * if it ends.
 */
export const STREAMS = { max: 1000, lifetimeMs: 600_000 };

/** The maximum numbers of WatchEvents streams, below `STREAMS.max`. Each stores up to one page of events. */
export const MAX_WATCHERS = { worker: 500, environment: 100 };
