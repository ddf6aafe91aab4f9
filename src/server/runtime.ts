import { setFlagsFromString } from "node:v8";
import { configureTextEncoding, getTextEncoding } from "@bufbuild/protobuf/wire";

/*
 * What V8 and protobuf-es are to do otherwise than by default. It is imported before all else: with ioredis loaded before
 * it, a call cost 5 % more.
 */

/*
 * Calls that wait for Redis survive collections of the young generation, so much of what is promoted to the old
 * generation soon becomes garbage. V8 collects the old generation when it has grown by this percentage. A lower value
 * saves memory but collects more often, and each collection delays calls: at 30 the p99 latency is that of a
 * collection. Deno takes V8 flags on its command line instead.
 */
if (!("Deno" in globalThis)) setFlagsFromString("--heap-growing-percent=100");

/*
 * Removes the accessor `__proto__`, so that it is a key like any other. The maps and JSON objects of callers then keep
 * it, and assigning to it cannot reach a prototype. Deno has no such accessor.
 */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

/*
 * protobuf-es drops a byte order mark at the beginning of a text, so that two ids would be one. Each text is what its bytes
 * say, as in JSON and in the other implementations of protobuf.
 */
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
configureTextEncoding({
  ...getTextEncoding(),
  decodeUtf8: (bytes, isStrict) => (isStrict ? strict : lenient).decode(bytes),
});
