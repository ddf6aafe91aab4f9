import { useEffect, useRef, useState } from "preact/hooks";
import type { Page } from "../../../operator/src/pages.ts";
import { session } from "../session/session.ts";
import { countText } from "../words.ts";
import { announce } from "./live.tsx";

/** The result of a request: a value or an error. */
export interface Answer<T> {
  /** During a repeated request: the previous value. */
  readonly value: T | undefined;
  readonly error: unknown;
  readonly isBusy: boolean;
  /** Repeats the request. The promise resolves when the request has succeeded or failed. */
  readonly again: () => Promise<void>;
}

/** The answer before the first request. */
const UNREAD = { value: undefined, error: undefined, isBusy: true };

/**
 * Sends a request when the page is shown, and again when `key` or the session changes. If a repeated request fails, the
 * value stays, and with it the text that the user typed.
 *
 * @param ask rejects with the error
 */
export function useAnswer<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Answer<T> {
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
      const value = await ask(signal);
      if (!signal.aborted) change({ value, error: undefined, isBusy: false });
    } catch (error) {
      if (!signal.aborted) change({ error, isBusy: false });
    }
  };
  // A component may call `again` long after it was rendered.
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    void latest.current();
    return () => inFlight.current?.abort();
  }, [session.value?.number, key]);
  return { ...current, again: () => latest.current() };
}

/** An action of the user. */
interface Action {
  /** Runs the action, unless it is running. */
  readonly run: () => void;
  readonly isBusy: boolean;
  /** Why the action failed. */
  readonly error: unknown;
}

/**
 * An action that does not start again while it runs.
 *
 * @param act rejects with the error. The page announces its result
 */
export function useAction(act: () => Promise<string | undefined>): Action {
  const [state, setState] = useState<Omit<Action, "run">>({ isBusy: false, error: undefined });
  const isBusy = useRef(false);
  const run = async () => {
    if (isBusy.current) return;
    isBusy.current = true;
    // This clears the announcement of an earlier action.
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

/** A list. The list may have more items than the page has read. */
export interface List<T> {
  /** Undefined before the first page. */
  readonly items: readonly T[] | undefined;
  readonly isBusy: boolean;
  readonly error: unknown;
  /** Repeats the failed request, or the first request if none failed. Undefined if the page cannot repeat it. */
  readonly again?: () => void;
  /** Shows the next items. Undefined: there are no more. */
  readonly more?: (() => void) | undefined;
}

type Read<T> = (pageToken: string, signal: AbortSignal) => Promise<Page<T>>;

/** The minimum number of items per read, unless the list ends. */
const MIN_ITEMS = 50;

/** Reads pages until it has `MIN_ITEMS` items. With a filter, the service may return short or empty pages. */
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
 * Reads a list page by page, and again when `key` changes. Announces the number of items after a further page.
 *
 * @param noun such as `user group`
 */
export function useList<T>(key: string, noun: string, read: Read<T>): List<T> & { readonly again: () => void } {
  const first = useAnswer(key, (signal) => readFull(read, "", signal));
  const [further, setFurther] = useState<Page<T> & { readonly of: Page<T> }>();
  // Further pages of an earlier read are dropped.
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
