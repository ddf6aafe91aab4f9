/*
 * The life of the keys that sign sessions. What a key is at a time follows from the times that are kept of it, so that every
 * process agrees on it without being told, and nothing has to run for a key to take over.
 */

/** Since when a key is there, and signs. Times are in milliseconds since 1970. */
export interface KeyTimes {
  readonly kid: string;
  readonly createTime: number;
  /** From when on it signs, until the next one does. */
  readonly activeTime: number;
}

/** `standby`: published, does not sign yet. `retired`: published until the last session that it signed has ended. */
export type KeyState = "standby" | "active" | "retired";

/** A key at a time. */
export interface KeyAt<Key extends KeyTimes> {
  readonly key: Key;
  readonly state: KeyState;
  /** When the next one takes over; undefined: that is not decided. */
  readonly retireTime: number | undefined;
  /** When it is no longer published; undefined: that is not decided. */
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

/** What the keys that are published at a time are, the one first that signs first. */
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

/** What is to become of the keys of an environment. */
export interface KeySetChange {
  /** The keys that stay, perhaps with another `activeTime`. */
  readonly kept: readonly KeyTimes[];
  /** From when on each key signs that is to be made. */
  readonly made: readonly number[];
}

/**
 * What the keys have to become for one to sign, and another to take over in time; undefined when they are as they should be.
 *
 * @param how `rotate`: the standby is to sign now or, if it has not been published for long enough, as soon as it has.
 *   `replace`: none of them may be used any more
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
