/*
 * What callers may take of a worker. What HTTP itself is bounded by is the transport's, and so is what of these is left
 * out.
 */

/** The largest request message, in bytes, compressed or not. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** The same of what anybody may send: names alone. Half messages on many streams must not take much memory. */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/**
 * How many calls may be under way. A worker answers several thousand a second, so that the last of as many is answered
 * in about half a second; fewer would be less than one turn of the event loop finds when a flood of calls comes, and the
 * worker would spend its time on refusing.
 */
export const MAX_CALLS = 4096;

/** Bounds of Watch and of reflection, which need no API token; gRPC clients that watch ask again when a stream ends. */
export const STREAMS = { max: 1000, maxPerConnection: 100, lifetimeMs: 600_000 };
