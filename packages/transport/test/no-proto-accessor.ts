/**
 * Removes Node's `__proto__` accessor. Import this file in a process if its maps or JSON objects may have a key
 * `__proto__`.
 */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

export {};
