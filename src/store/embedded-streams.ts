import { EVENT, EVENT_FIELD } from "./audit.ts";

/*
 * The streams of ioredis-mock give an id twice once they are trimmed, keep what is trimmed in memory, and cannot be read
 * from an id on. So the embedded store keeps a stream as a list: the id and the fields of each event in turn.
 */

/** How many elements of the list an event takes. */
export const ELEMENTS = 1 + 2 * Object.keys(EVENT_FIELD).length;

/** What the ids of a call's events begin with, and the number of the event in it. */
const ID = "KEYS[4] .. string.format('%03d', appended)";

/** What stands in a script in place of `LENGTH`. */
export const LIST_LENGTH = `redis.call('LLEN', trail) / ${ELEMENTS}`;

/** What stands in a script in place of `APPEND`: it drops what is too old or too many at once. */
export const LIST_APPEND = `appended = (appended or 0) + 1
  redis.call('RPUSH', trail, ${ID}, ${EVENT})
  local function is_old(event)
    local id = redis.call('LINDEX', trail, string.format('%.0f', event * ${ELEMENTS}))
    return id and tonumber(string.match(id, '^%d+')) < now - retentionMs
  end
  local gone = 0.0
  while is_old(gone) do gone = gone + 1 end
  dropped = math.max(length + 1.0 - gone - limit, 0)
  redis.call('LTRIM', trail, string.format('%.0f', (gone + dropped) * ${ELEMENTS}), -1)`;

/** XREVRANGE on such a list. @param elements of the list */
export function reverseRange(elements: readonly string[], end: string, start: string, count: number) {
  const events: [string, string[]][] = [];
  for (let at = elements.length - ELEMENTS; at >= 0 && events.length < count; at -= ELEMENTS) {
    const id = elements[at] as string;
    if (isWithin(id, end, start)) events.push([id, elements.slice(at + 1, at + ELEMENTS)]);
  }
  return events;
}

function isWithin(id: string, end: string, start: string): boolean {
  const isBelow = end.startsWith("(") ? compareIds(id, end.slice(1)) < 0 : compareIds(id, upTo(end)) <= 0;
  return isBelow && compareIds(id, start) >= 0;
}

/** The last id of a millisecond, where an id has no second part. */
function upTo(id: string): string {
  return id.includes("-") || id === "+" ? id : `${id}-${Number.MAX_SAFE_INTEGER}`;
}

/** Which of two ids is later: positive when the first is. `+` is later than all. */
function compareIds(one: string, other: string): number {
  if (other === "+") return -1;
  const [ms = "", sequence = "0"] = one.split("-");
  const [otherMs = "", otherSequence = "0"] = other.split("-");
  return Number(ms) - Number(otherMs) || Number(sequence) - Number(otherSequence);
}
