import { useEffect, useRef, useState } from "preact/hooks";
import type { Page } from "../../../operator/src/pages.ts";
import { countText } from "../../../operator/src/words.ts";
import { session } from "../session/session.ts";
import { announce } from "./live.tsx";

/** The state of a request. */
export interface Answer<T> {
  /** The value of the last successful request with the current key. Undefined before the first success. */
  readonly value: T | undefined;
  readonly error: unknown;
  readonly isBusy: boolean;
  /** Repeats the request. The returned promise resolves after the request has succeeded or failed. */
  readonly again: () => Promise<void>;
}

const UNREAD = { value: undefined, error: undefined, isBusy: true };

/**
 * Sends a request when the component is mounted. Sends the request again when `key` or the session changes. If a
 * repeated request with the same `key` fails, the old value stays, so that a form does not lose the typed text.
 *
 * @param ask sends the request. `before` is the result of the last request with the same `key`
 */
export function useAnswer<T>(
  key: string,
  ask: (signal: AbortSignal, before: Pick<Answer<T>, "value" | "error">) => Promise<T>,
): Answer<T> {
  const [state, setState] = useState<Omit<Answer<T>, "again"> & { readonly of: string }>();
  const current = state?.of === key ? state : UNREAD;
  const inFlight = useRef<AbortController>();
  const read = async () => {
    inFlight.current?.abort();
    inFlight.current = new AbortController();
    const { signal } = inFlight.current;
    const change = (changed: Partial<Answer<T>>) =>
      setState((before) => ({ ...(before?.of === key ? before : UNREAD), ...changed, of: key }));
    change({ isBusy: true });
    try {
      const value = await ask(signal, current);
      if (!signal.aborted) change({ value, error: undefined, isBusy: false });
    } catch (error) {
      if (!signal.aborted) change({ error, isBusy: false });
    }
  };
  // A component may call the function `again` of an earlier render. The call must use the `key` and the `ask` of the
  // latest render.
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    void latest.current();
    return () => inFlight.current?.abort();
  }, [session.value?.number, key]);
  return { ...current, again: () => latest.current() };
}

interface Action {
  /** Starts the action. Does nothing if the action is still running. */
  readonly run: () => void;
  readonly isBusy: boolean;
  /** The error of the last run. Undefined before the first run, during a run, and after a successful run. */
  readonly error: unknown;
}

/** @param act performs the action. Resolves with the text to announce, or with undefined to announce nothing */
export function useAction(act: () => Promise<string | undefined>): Action {
  const [state, setState] = useState<Omit<Action, "run">>({ isBusy: false, error: undefined });
  const isBusy = useRef(false);
  const run = async () => {
    if (isBusy.current) return;
    isBusy.current = true;
    // Removes the announcement of an earlier action.
    announce("");
    setState({ isBusy: true, error: undefined });
    let error: unknown;
    try {
      const done = await act();
      if (done !== undefined) announce(done);
    } catch (failure) {
      error = failure;
    }
    isBusy.current = false;
    setState({ isBusy: false, error });
  };
  return { run: () => void run(), ...state };
}

/** The state of a list that the service returns in pages. */
export interface List<T> {
  /** The items of all pages that were read. Undefined before the first response. */
  readonly items: readonly T[] | undefined;
  readonly isBusy: boolean;
  readonly error: unknown;
  /** Repeats the failed request. If no request has failed, repeats the first request. */
  readonly again?: () => void;
  /** Reads the next items. Undefined before the first response, and at the end of the list. */
  readonly more?: (() => void) | undefined;
}

type Read<T> = (pageToken: string, signal: AbortSignal) => Promise<Page<T>>;

/** `readFull` reads pages until it has at least this number of items. */
const MIN_ITEMS = 50;

/**
 * Reads pages until they contain at least `MIN_ITEMS` items, or until the list ends. One page is not always enough,
 * because a page of a filtered list may contain few items or none.
 */
async function readFull<T>(read: Read<T>, pageToken: string, signal: AbortSignal): Promise<Page<T>> {
  const items: T[] = [];
  let nextPageToken = pageToken;
  do {
    const page = await read(nextPageToken, signal);
    items.push(...page.items);
    nextPageToken = page.nextPageToken;
  } while (items.length < MIN_ITEMS && nextPageToken !== "");
  return { items, nextPageToken };
}

/**
 * Reads the first items of a list when the component is mounted, and again when `key` or the session changes. `more`
 * reads the next items and announces the number of shown items.
 *
 * @param noun the name of an item, such as `user group`
 */
export function useList<T>(key: string, noun: string, read: Read<T>): List<T> & { readonly again: () => void } {
  const first = useAnswer(key, (signal) => readFull(read, "", signal));
  const [further, setFurther] = useState<Page<T> & { readonly of: Page<T> }>();
  // `further.of` contains the first items of the list when `more` was last called. If the first items were read again
  // since then, `further` is outdated.
  const shown = further && further.of === first.value ? further : first.value;
  const more = useAction(async () => {
    if (!first.value || !shown) return undefined;
    const page = await readFull(read, shown.nextPageToken, new AbortController().signal);
    const items = [...shown.items, ...page.items];
    setFurther({ of: first.value, items, nextPageToken: page.nextPageToken });
    return `${countText(items.length, noun)} are shown`;
  });
  return {
    items: shown?.items,
    isBusy: first.isBusy || more.isBusy,
    error: more.error ?? first.error,
    again: more.error === undefined ? first.again : more.run,
    more: shown && shown.nextPageToken !== "" ? more.run : undefined,
  };
}
