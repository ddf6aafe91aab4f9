import { DAY_MS } from "../domain/durations.ts";

/*
 * The state of a signing key depends only on the stored times of the keys and on the current time. All processes
 * therefore compute the same state, without messages between processes and without scheduled jobs.
 */

/** Times of a key, in milliseconds since 1970. */
export interface KeyTimes {
  readonly kid: string;
  readonly createTime: number;
  /** The time from which the key signs. The key signs until the `activeTime` of the next key. */
  readonly activeTime: number;
}

/** `standby`: the key is published, but does not sign yet. `retired`: the key no longer signs, but is published. */
type KeyState = "standby" | "active" | "retired";

/** A key, and its state at a time. */
interface KeyAt<Key extends KeyTimes> {
  readonly key: Key;
  readonly state: KeyState;
  /** The `activeTime` of the next key. Undefined if there is no next key. */
  readonly retireTime: number | undefined;
  /** The time from which the key is no longer published. Undefined if there is no next key. */
  readonly goneTime: number | undefined;
}

/** The time for which a key signs, in milliseconds. */
export const LIFETIME_MS = 30 * DAY_MS;

/**
 * The minimum time for which a key is published before it signs, in milliseconds: the cache time of the published keys,
 * plus five minutes.
 */
export const PUBLISHED_MS = 15 * 60_000;

/**
 * The time for which a retired key stays published, in milliseconds: the maximum lifetime of a session, plus ten
 * minutes.
 */
export const KEPT_MS = 70 * 60_000;

/** Returns the states of the published keys at a time, in the order in which they sign. */
export function statesOf<Key extends KeyTimes>(keys: readonly Key[], now: number): KeyAt<Key>[] {
  const sorted = [...keys].sort((one, other) => one.activeTime - other.activeTime || (one.kid < other.kid ? -1 : 1));
  // The first key signs even before its `activeTime`, because the clock of this process may be slow.
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

interface KeySetChange<Key> {
  /** The keys that stay. Some of these keys may have a new `activeTime`. */
  readonly kept: readonly Key[];
  /** The `activeTime` of each key to create. */
  readonly made: readonly number[];
}

export type KeyChange = "maintain" | "rotate" | "replace";

/**
 * Returns a change after which the environment has one active key and one standby key. Returns undefined if no change
 * is needed.
 *
 * @param how `rotate`: the standby key becomes active as soon as it has been published for `PUBLISHED_MS`. `replace`:
 *   all old keys are removed, and a new key becomes active immediately
 */
export function nextKeySet<Key extends KeyTimes>(
  keys: readonly Key[],
  now: number,
  how: KeyChange = "maintain",
): KeySetChange<Key> | undefined {
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
