/* As a process whose maps and JSON objects may have a key `__proto__`: Node's accessor of that name is removed. */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

export {};
