/*
 * Removes the accessor `__proto__`, so that it is a key like any other. The maps and JSON objects of callers then keep
 * it, and assigning to it cannot reach a prototype. Deno has no such accessor.
 */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

export {};
