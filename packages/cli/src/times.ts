import { type Duration, durationFromMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { parseDuration, parseWhen, whenText } from "../../operator/src/times.ts";
import { usageFailure } from "./failures.ts";

/**
 * Parses the time of an option.
 *
 * @param sign see `parseWhen`
 * @throws Failure if the text is not a time. The message contains the name of the option
 */
export function timeOf(option: string, text: string, sign: 1 | -1): Timestamp {
  const time = parseWhen(text, sign);
  if (!time) throw usageFailure(`${option} must be ${whenText(sign)}`);
  return time;
}

/** Parses the duration of an option. @throws Failure with the name of the option */
export function ttlOf(option: string, text: string | undefined): Duration | undefined {
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  if (ms === undefined) throw usageFailure(`${option} must be a duration, such as 0s, 5m, 1h or 30d`);
  return durationFromMs(ms);
}
