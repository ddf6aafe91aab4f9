/*
 * Without this accessor `__proto__` is a key like any other, so that the maps
 * and JSON objects of callers keep it, and no assignment can reach a prototype.
 * Deno has no such accessor to begin with.
 */
// biome-ignore lint/suspicious/noProto: this is what takes it away
delete (Object.prototype as { __proto__?: unknown }).__proto__;

export {};
