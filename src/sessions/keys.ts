/**
 * The life of the keys that sign sessions. The state of a key at any time follows from its stored times, so that every
 * process agrees on it without a message, and nothing has to run for a key to take over.
 */

/** When a key was made, and when it begins to sign. Times are in milliseconds since 1970. */
export interface KeyTimes {
  readonly kid: string;
  readonly createTime: number;
  /** The key signs from this time until the next key does. */
  readonly activeTime: number;
}

/** `standby`: published, does not sign yet. `retired`: published until the last session that it signed has ended. */
export type KeyState = "standby" | "active" | "retired";

/** A key and its state at a time. */
interface KeyAt<Key extends KeyTimes> {
  readonly key: Key;
  readonly state: KeyState;
  /** When the next key takes over; undefined while there is none. */
  readonly retireTime: number | undefined;
  /** When the key is no longer published; undefined while no next key is there. */
  readonly goneTime: number | undefined;
}

/** How long a key signs, in milliseconds. */
export const LIFETIME_MS = 30 * 86_400_000;

/**
 * How long a key is published before it signs, in milliseconds: for as long as published keys may be cached, and five minutes
 * more.
 */
export const PUBLISHED_MS = 15 * 60_000;

/** How long a key stays published once it does not sign any more, in milliseconds: the longest session, and ten minutes more. */
export const KEPT_MS = 70 * 60_000;

/** The states of the keys that are published at a time, in the order in which they sign. */
export function statesOf<Key extends KeyTimes>(keys: readonly Key[], now: number): KeyAt<Key>[] {
  const sorted = [...keys].sort((one, other) => one.activeTime - other.activeTime || (one.kid < other.kid ? -1 : 1));
  // The first key of all signs at once, whatever the clock of this process says.
  const active = Math.max(
    0,
    sorted.findLastIndex(({ activeTime }) => activeTime <= now),
  );
  const all = sorted.map((key, i): KeyAt<Key> => {
    const retireTime = sorted[i + 1]?.activeTime;
    const state = i < active ? "retired" : i === active ? "active" : "standby";
    return { key, state, retireTime, goneTime: retireTime === undefined ? undefined : retireTime + KEPT_MS };
  });
  return all.filter(({ state, goneTime = now }) => state !== "retired" || goneTime > now);
}

/** A change of an environment's keys. */
export interface KeySetChange {
  /** The keys that stay, perhaps with another `activeTime`. */
  readonly kept: readonly KeyTimes[];
  /** The `activeTime` of each key that has to be made. */
  readonly made: readonly number[];
}

/**
 * The change that is needed for one key to sign, and another to take over in time; undefined when none is.
 *
 * @param how `rotate`: the standby key is to sign now or, if it has not been published for long enough, as soon as it
 * has been. `replace`: none of the keys may be used any more
 */
export function nextKeySet(
  keys: readonly KeyTimes[],
  now: number,
  how: "maintain" | "rotate" | "replace" = "maintain",
): KeySetChange | undefined {
  if (keys.length === 0 || how === "replace") return { kept: [], made: [now, now + LIFETIME_MS] };
  const states = statesOf(keys, now);
  const kept = states.map(({ key, state }) =>
    how === "rotate" && state === "standby"
      ? { ...key, activeTime: Math.min(key.activeTime, Math.max(now, key.createTime + PUBLISHED_MS)) }
      : key,
  );
  const last = Math.max(...kept.map(({ activeTime }) => activeTime));
  const made: number[] = [];
  if (how === "rotate" && !states.some(({ state }) => state === "standby")) made.push(now + PUBLISHED_MS);
  else if (last <= now) made.push(Math.max(now + PUBLISHED_MS, last + LIFETIME_MS));
  const isSame =
    made.length === 0 &&
    kept.length === keys.length &&
    kept.every((key, i) => key.activeTime === states[i]?.key.activeTime);
  return isSame ? undefined : { kept, made };
}
