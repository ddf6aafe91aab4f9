/*
 * Limits of a worker for the messages, calls and streams of its callers. The limits for HTTP are the defaults of the
 * transport's option `limits`.
 */

/** The maximum size of a request message, in bytes, before and after decompression. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/**
 * The maximum size of a request message for methods that need no API token, in bytes. Their requests contain only
 * names. Partial messages on many streams must not use much memory.
 */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/**
 * The maximum number of calls that wait or are in flight. A worker serves this many calls in about a second. A waiting
 * call uses about 20 KB. 160 HTTP/2 connections together have fewer streams than this.
 */
export const MAX_CALLS = 16_384;

/** The maximum number of requests for published keys that wait for Redis. These requests need no API token. */
export const MAX_KEY_REQUESTS = 4096;

/**
 * `max`: maximum number of open streams. `lifetimeMs`: maximum lifetime of a stream, in milliseconds. The streaming
 * calls are WatchEvents, Watch of the health service, and reflection. Watch and reflection need no API token. Slow
 * request bodies of calls without an API token also count as streams. When a stream of Watch ends, gRPC clients call
 * Watch again.
 */
export const STREAMS = { max: 1000, lifetimeMs: 600_000 };

/**
 * Maximum numbers of streams of WatchEvents: per worker, and per environment in a worker. The limits leave streams for
 * other callers. A stream keeps up to one page of events in memory.
 */
export const MAX_WATCHERS = { worker: 500, environment: 100 };
