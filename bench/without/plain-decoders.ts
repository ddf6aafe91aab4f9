import type {
  compilePlainBinaryDecoder as Binary,
  compilePlainJsonDecoder as Json,
} from "../../packages/transport/src/codec/serialization.ts";

/* Every request is decoded by protobuf-es. */

export const compilePlainJsonDecoder = (): typeof Json => () => () => undefined;

export const compilePlainBinaryDecoder = (): typeof Binary => () => () => undefined;
