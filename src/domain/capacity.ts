/*
 * Limits of a worker for the messages, calls and streams of its callers. The transport has limits for HTTP: the defaults of its
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
 * The maximum number of calls that wait or are in flight. A worker serves this many in about a second. A waiting call
 * uses about 20 KB. Up to 160 HTTP/2 connections have fewer open streams.
 */
export const MAX_CALLS = 16_384;

/** The maximum number of requests for published keys that wait for Redis. They need no API token. */
export const MAX_KEY_REQUESTS = 4096;

/**
 * `max`: maximum number of open streams. `lifetimeMs`: maximum lifetime of a stream, in milliseconds. The streaming calls are
 * WatchEvents, and Watch and reflection, which need no API token. Slow request bodies of calls without an API token count as streams, too. When a stream
 * ends, gRPC clients that watch the health call Watch again.
 */
export const STREAMS = { max: 1000, lifetimeMs: 600_000 };

/**
 * Maximum numbers of streams of WatchEvents, in all and per environment, so that streams remain for other callers. A stream keeps up to
 * one page of events in memory.
 */
export const MAX_WATCHERS = { worker: 500, environment: 100 };
