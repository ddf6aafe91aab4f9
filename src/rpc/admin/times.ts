import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { invalidField } from "../errors.ts";

/** The first and the last second that a Timestamp can stand for, of the years 1 to 9999, in milliseconds since 1970. */
const MIN_TIME = -62_135_596_800_000;
const MAX_TIME = Date.UTC(10_000, 0) - 1;

/**
 * Converts a time of a request to milliseconds since 1970, with its fraction; undefined when it is unset.
 *
 * @throws ConnectError InvalidArgument when it is out of range, which protobuf's binary format does not prevent
 */
export function timeOf(field: string, time: Timestamp | undefined): number | undefined {
  if (!time) return undefined;
  const { seconds, nanos } = time;
  const ms = Number(seconds) * 1000 + nanos / 1_000_000;
  if (nanos >= 0 && nanos < 1_000_000_000 && ms >= MIN_TIME && ms <= MAX_TIME) return ms;
  throw invalidField(field, "must be a valid time of the years 1 to 9999");
}
