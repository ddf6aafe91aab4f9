import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

/** A time as people read it: to the second, in UTC. */
export function timeText(timestamp: Timestamp | undefined): string | undefined {
  if (!timestamp) return undefined;
  return timestampDate(timestamp).toISOString().replace("T", " ").replace(/\.\d+/, "");
}

/** When something ends. */
export function endText(expireTime: Timestamp | undefined): string {
  return timeText(expireTime) ?? "never";
}
