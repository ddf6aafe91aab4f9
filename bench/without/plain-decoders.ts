import type {
  compilePlainBinaryDecoder as Binary,
  compilePlainJsonDecoder as Json,
} from "../../src/transport/codec/plain-decoders.ts";

/* Every request is decoded by protobuf-es. */

export const compilePlainJsonDecoder = (): typeof Json => () => () => undefined;

export const compilePlainBinaryDecoder = (): typeof Binary => () => () => undefined;
