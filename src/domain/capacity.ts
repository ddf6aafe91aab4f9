/* Limits of a worker for its callers. The limits for HTTP are the defaults of the transport's option `limits`. */

/** The maximum size of a request message, in bytes, before and after decompression. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/**
 * The maximum size of a request message for methods that need no API token, in bytes. The small limit bounds the memory
 * for incomplete messages on many streams.
 */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/**
 * The maximum number of calls that wait or run. A waiting call uses about 20 KB of memory. A worker completes
 * `MAX_CALLS` calls in about a second.
 */
export const MAX_CALLS = 16_384;

/** Requests for public signing keys need no API token. At most this many of these requests wait for Redis. */
export const MAX_KEY_REQUESTS = 4096;

/**
 * The maximum number of open streams, and their maximum lifetime in milliseconds. The number includes WatchEvents,
 * Watch of the health service, reflection, and calls that have no API token and whose body arrives slowly. If a stream
 * of Watch ends, gRPC clients call Watch again.
 */
export const STREAMS = { max: 1000, lifetimeMs: 600_000 };

/**
 * The maximum numbers of WatchEvents streams in one worker: in total, and for one environment. Both numbers are below
 * `STREAMS.max`, so that other calls can still open streams. Each stream stores up to one page of events in memory.
 */
export const MAX_WATCHERS = { worker: 500, environment: 100 };
