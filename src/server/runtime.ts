import { setFlagsFromString } from "node:v8";
import { configureTextEncoding, getTextEncoding } from "@bufbuild/protobuf/wire";

/*
 * Options of V8 and protobuf-es. Import this file first: a call costs 5 % more CPU if ioredis is loaded before this
 * file.
 */

/*
 * V8 collects the old generation when its size has grown by this percentage. While a call waits for Redis, V8 moves the
 * objects of the call to the old generation, where they soon become garbage. With a lower value, V8 uses less memory,
 * but collects more often, and each collection delays calls. At 30 %, collections determine the p99 latency. Deno reads
 * V8 flags from its command line instead.
 */
if (!("Deno" in globalThis)) setFlagsFromString("--heap-growing-percent=100");

/*
 * Removes the accessor `__proto__`, so that `__proto__` is an ordinary key. Maps and JSON objects of callers then keep
 * this key. An assignment to this key cannot change a prototype. Deno has no such accessor.
 */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

/*
 * By default, protobuf-es removes a byte order mark at the start of a string, so two ids could become equal. These
 * decoders keep the mark, like JSON and other protobuf implementations.
 */
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
configureTextEncoding({
  ...getTextEncoding(),
  decodeUtf8: (bytes, isStrict) => (isStrict ? strict : lenient).decode(bytes),
});
