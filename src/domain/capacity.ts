/*
 * Limits of a worker for the messages, calls and streams of its callers. The limits for HTTP are the defaults of the
 * transport's option `limits`.
 */

/** The maximum size of a request message, in bytes, before and after decompression. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/**
 * The maximum size of a request message for methods that need no API token, in bytes. Messages of these methods contain
 * only names. The small limit bounds the memory for incomplete messages on many streams.
 */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/**
 * The maximum number of waiting and running calls. A worker completes this many calls in about a second. A waiting call
 * uses about 20 KB. The streams of 160 HTTP/2 connections fit into this limit.
 */
export const MAX_CALLS = 16_384;

/**
 * The maximum number of waiting requests for public signing keys. These requests need no API token, and wait for Redis.
 */
export const MAX_KEY_REQUESTS = 4096;

/**
 * `max`: the maximum number of open streams. `lifetimeMs`: the maximum lifetime of a stream, in milliseconds.
 *
 * The streaming calls are WatchEvents, Watch of the health service, and reflection. Watch and reflection need no API
 * token. If a call has no API token, and its request body arrives slowly, the call counts as a stream as well. If a
 * stream of Watch ends, gRPC clients call Watch again.
 */
export const STREAMS = { max: 1000, lifetimeMs: 600_000 };

/**
 * The maximum number of WatchEvents streams in a worker, and the maximum number per environment in a worker. These
 * numbers are below the limit of all streams, so that other calls can still open streams. Each stream stores up to one
 * page of events in memory.
 */
export const MAX_WATCHERS = { worker: 500, environment: 100 };
