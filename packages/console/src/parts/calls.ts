import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { announce } from "./live.tsx";

/** What was asked for: `value` when it is there, `error` when it could not be had. */
export interface Answer<T> {
  /** That of the last answer, while it is asked again. */
  readonly value: T | undefined;
  readonly error: unknown;
  readonly isBusy: boolean;
  /** Asks again. */
  readonly again: () => void;
}

/** Asks for something when a page is shown, and whenever `key` changes. @param ask rejects with why it cannot be had */
export function useAnswer<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Answer<T> {
  const [round, setRound] = useState(0);
  const asked = `${round} ${key}`;
  const [state, setState] = useState<{ asked: string; key: string; value: T | undefined; error: unknown }>();
  // `ask` is another function every time; `asked` says when it asks for something else.
  useEffect(() => {
    const leaving = new AbortController();
    const settle = (value: T | undefined, error: unknown) => {
      if (leaving.signal.aborted) return;
      // Where it cannot be had again, what is shown stays, and what is typed there with it.
      setState((before) => ({ asked, key, value: value ?? (before?.key === key ? before.value : undefined), error }));
    };
    ask(leaving.signal).then(
      (value) => settle(value, undefined),
      (error: unknown) => settle(undefined, error),
    );
    return () => leaving.abort();
  }, [asked]);
  const again = useCallback(() => setRound((before) => before + 1), []);
  // What belongs to another key is not shown under this one.
  const current = state?.key === key ? state : undefined;
  return { value: current?.value, error: current?.error, isBusy: state?.asked !== asked, again };
}

/** Something that a person has done. */
export interface Action<Arguments extends readonly unknown[]> {
  /** Does it, unless it is being done. */
  readonly run: (...given: Arguments) => Promise<void>;
  readonly isBusy: boolean;
  /** Why it was not done. */
  readonly error: unknown;
}

/** Something that a person does, once at a time. @param act rejects with why it is not done; its result is announced */
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
    // What was said of the one before is not to stand beside a failure of this one.
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

/** A page of a list of the API (https://google.aip.dev/158). */
export interface ListPage<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** A list as far as it was read. */
export interface List<T> extends Omit<Answer<readonly T[]>, "value"> {
  readonly items: readonly T[];
  /** Whether the first page is there. */
  readonly isThere: boolean;
  readonly hasMore: boolean;
  /** Reads the next page, and says how many there are then. */
  readonly more: () => void;
}

/** Reads a list page by page, from its begin whenever `key` changes. @param noun what is listed, such as `user group` */
export function useList<T>(
  key: string,
  noun: string,
  read: (pageToken: string, signal: AbortSignal) => Promise<ListPage<T>>,
): List<T> {
  const first = useAnswer(key, (signal) => read("", signal));
  const [further, setFurther] = useState<{ of: ListPage<T>; items: readonly T[]; next: string }>();
  // Pages of a list that was read again since are not of this one.
  const rest = further && further.of === first.value ? further : undefined;
  const items = [...(first.value?.items ?? []), ...(rest?.items ?? [])];
  const nextPageToken = rest ? rest.next : (first.value?.nextPageToken ?? "");
  const more = useAction(async () => {
    const of = first.value;
    if (!of) return undefined;
    // A page may be empty though more follow.
    let page: ListPage<T> = { items: [], nextPageToken };
    do page = await read(page.nextPageToken, new AbortController().signal);
    while (page.items.length === 0 && page.nextPageToken !== "");
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
    again: more.error === undefined ? first.again : () => void more.run(),
  };
}
