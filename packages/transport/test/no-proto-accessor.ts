/** Removes Node's `__proto__` accessor. A process must do this if its maps and JSON objects may have that key. */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

export {};
