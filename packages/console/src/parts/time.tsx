import { type Timestamp, timestampDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { signal } from "@preact/signals";
import { timeText } from "../../../operator/src/times.ts";
import { relativeText } from "./relative.ts";

/** The current time, in milliseconds. The value changes every 10 seconds, so that relative times stay correct. */
const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 10_000);

/** Shows a relative time. The exact time appears on hover, and screen readers read the exact time. */
export function Time({
  time,
  none = "–",
  isExact,
}: {
  readonly time: Timestamp | undefined;
  /** The text that is shown if the time is not set. Default: a dash. */
  readonly none?: string | undefined;
  /** Whether to show the exact time as well. Default: no. */
  readonly isExact?: boolean | undefined;
}) {
  if (!time) return <>{none}</>;
  const exact = timeText(time);
  return (
    <time dateTime={timestampDate(time).toISOString()} title={exact}>
      {relativeText(timestampMs(time), Math.max(now.value, Date.now()))}
      <span class={isExact ? "small" : "unseen"}> {exact}</span>
    </time>
  );
}
