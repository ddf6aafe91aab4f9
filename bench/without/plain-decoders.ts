import type {
  compilePlainBinaryDecoder as Binary,
  compilePlainJsonDecoder as Json,
} from "../../packages/transport/src/codec/plain-decoders.ts";

/* Every request is decoded by protobuf-es. */

export const compilePlainJsonDecoder = (): typeof Json => () => () => undefined;

export const compilePlainBinaryDecoder = (): typeof Binary => () => () => undefined;
