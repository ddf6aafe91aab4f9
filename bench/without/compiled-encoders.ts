import type { compileBinaryEncoder as Binary } from "../../packages/transport/src/codec/binary-encoder.ts";
import type { compileJsonEncoder as Json } from "../../packages/transport/src/codec/json-encoder.ts";

/* Every answer is encoded by protobuf-es. */

export const compileBinaryEncoder = (): typeof Binary => () => undefined;

export const compileJsonEncoder = (): typeof Json => () => undefined;
