import type { compileBinaryEncoder as Binary } from "../../src/transport/codec/binary-encoder.ts";
import type { compileJsonEncoder as Json } from "../../src/transport/codec/json-encoder.ts";

/* Every answer is encoded by protobuf-es. */

export const compileBinaryEncoder = (): typeof Binary => () => undefined;

export const compileJsonEncoder = (): typeof Json => () => undefined;
