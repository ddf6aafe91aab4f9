/**
 * Removes Node's `__proto__` accessor. Necessary in a process whose maps or JSON objects may have a key `__proto__`.
 */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

export {};
