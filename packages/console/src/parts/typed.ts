import { useState } from "preact/hooks";

/** Holds the texts of fields whose initial texts are in the URL. If the URL changes, the texts are reset. */
export function useTyped<T>(given: T): readonly [typed: T, setTyped: (typed: T) => void] {
  const of = JSON.stringify(given);
  const [state, setState] = useState<{ readonly of: string; readonly typed: T }>();
  const typed = state?.of === of ? state.typed : given;
  return [typed, (changed) => setState({ of, typed: changed })];
}
