import { setFlagsFromString } from "node:v8";
import { configureTextEncoding, getTextEncoding } from "@bufbuild/protobuf/wire";

/*
 * Sets options of V8 and protobuf-es. Import this file before all other files: if ioredis is loaded before this file, a
 * call takes 5 % more CPU time.
 */

/*
 * V8 runs a garbage collection of old objects when their size has grown by this percentage. A lower value takes more
 * CPU time, because collections are more frequent. At 100 %, a pause takes twice as long as at 50 %, and a worker uses
 * 20 MiB more memory. Deno reads V8 flags only at its start, so `npm run start:deno` sets the flag in `DENO_V8_FLAGS`.
 */
if (!("Deno" in globalThis)) setFlagsFromString("--heap-growing-percent=50");

/*
 * Removes the accessor `__proto__`, so that callers can use `__proto__` as a key of maps and JSON objects, and cannot
 * change a prototype. Deno has no such accessor.
 */
// biome-ignore lint/suspicious/noProto: removing the accessor is the purpose
delete (Object.prototype as { __proto__?: unknown }).__proto__;

/*
 * By default, protobuf-es removes a byte order mark at the start of a string, so two different ids could become equal.
 * The decoders below keep the mark, like JSON and other protobuf implementations.
 */
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
configureTextEncoding({
  ...getTextEncoding(),
  decodeUtf8: (bytes, isStrict) => (isStrict ? strict : lenient).decode(bytes),
});
