import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Page } from "../../../operator/src/pages.ts";
import { session } from "../session/session.ts";
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

/**
 * Sends a request when the page is shown, and again when `key` or the session changes. @param ask rejects with the error
 */
export function useAnswer<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Answer<T> {
  const [round, setRound] = useState(0);
  const requested = `${round} ${session.value?.number} ${key}`;
  const [state, setState] = useState<{ requested: string; key: string; value: T | undefined; error: unknown }>();
  /** Resolves the promises of `again`. */
  const waiting = useRef<(() => void)[]>([]);
  // `ask` is a new function each time; `requested` changes when it requests something else.
  useEffect(() => {
    const leaving = new AbortController();
    const awaited = waiting.current;
    waiting.current = [];
    const settle = (value: T | undefined, error: unknown) => {
      if (leaving.signal.aborted) return;
      // If a repeated request fails, the page keeps the previous value, and the text that the user typed.
      setState((before) => ({
        requested,
        key,
        value: value ?? (before?.key === key ? before.value : undefined),
        error,
      }));
      for (const resolve of awaited) resolve();
    };
    ask(leaving.signal).then(
      (value) => settle(value, undefined),
      (error: unknown) => settle(undefined, error),
    );
    return () => {
      leaving.abort();
      // They wait for the next request.
      waiting.current.push(...awaited);
    };
  }, [requested]);
  const again = useCallback(
    () =>
      new Promise<void>((resolve) => {
        waiting.current.push(resolve);
        setRound((before) => before + 1);
      }),
    [],
  );
  const current = state?.key === key ? state : undefined;
  return { value: current?.value, error: current?.error, isBusy: state?.requested !== requested, again };
}

/** An action of the user. */
export interface Action<Arguments extends readonly unknown[]> {
  /** Runs the action, unless it is running. */
  readonly run: (...given: Arguments) => Promise<void>;
  readonly isBusy: boolean;
  /** Why the action failed. */
  readonly error: unknown;
}

/** An action that runs once at a time. @param act rejects with the error; its result is announced */
export function useAction<Arguments extends readonly unknown[]>(
  act: (...given: Arguments) => Promise<string | undefined>,
): Action<Arguments> {
  const [state, setState] = useState<{ isBusy: boolean; error: unknown }>({ isBusy: false, error: undefined });
  const isBusy = useRef(false);
  const isHere = useRef(true);
  useEffect(
    () => () => {
      isHere.current = false;
    },
    [],
  );
  const run = async (...given: Arguments) => {
    if (isBusy.current) return;
    isBusy.current = true;
    // This clears the announcement of an earlier action.
    announce("");
    setState({ isBusy: true, error: undefined });
    let error: unknown;
    try {
      const done = await act(...given);
      if (done !== undefined) announce(done);
    } catch (failure) {
      error = failure;
    }
    isBusy.current = false;
    if (isHere.current) setState({ isBusy: false, error });
  };
  return { run, ...state };
}

/** A list that is read page by page. */
export interface List<T> extends Omit<Answer<readonly T[]>, "value"> {
  readonly items: readonly T[];
  /** Whether the first page is read. */
  readonly isThere: boolean;
  readonly hasMore: boolean;
  /** Reads the next page, and announces the number of items. */
  readonly more: () => void;
}

type Read<T> = (pageToken: string, signal: AbortSignal) => Promise<Page<T>>;

/** The least number of items per read, unless the list ends. */
const MIN_ITEMS = 50;

/** Reads pages until there are `MIN_ITEMS`. With a filter the service may return short or empty pages. */
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

/** Reads a list page by page, and again when `key` changes. @param noun such as `user group` */
export function useList<T>(key: string, noun: string, read: Read<T>): List<T> {
  const first = useAnswer(key, (signal) => readFull(read, "", signal));
  const [further, setFurther] = useState<{ of: Page<T>; items: readonly T[]; next: string }>();
  // Further pages of an earlier read are dropped.
  const rest = further && further.of === first.value ? further : undefined;
  const items = [...(first.value?.items ?? []), ...(rest?.items ?? [])];
  const nextPageToken = rest ? rest.next : (first.value?.nextPageToken ?? "");
  const more = useAction(async () => {
    const of = first.value;
    if (!of) return undefined;
    const page = await readFull(read, nextPageToken, new AbortController().signal);
    setFurther({ of, items: [...(rest?.items ?? []), ...page.items], next: page.nextPageToken });
    return `${items.length + page.items.length} ${noun}s are shown`;
  });
  return {
    items,
    isThere: first.value !== undefined,
    hasMore: nextPageToken !== "",
    more: () => void more.run(),
    error: more.error ?? first.error,
    isBusy: first.isBusy || more.isBusy,
    again: more.error === undefined ? first.again : () => more.run(),
  };
}
