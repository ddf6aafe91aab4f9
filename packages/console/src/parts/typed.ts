import { useState } from "preact/hooks";

/** Stores the texts of fields. The initial texts are `given`. If `given` changes, the texts are reset to `given`. */
export function useTyped<T>(given: T): readonly [typed: T, setTyped: (typed: T) => void] {
  const of = JSON.stringify(given);
  const [state, setState] = useState<{ readonly of: string; readonly typed: T }>();
  const typed = state?.of === of ? state.typed : given;
  return [typed, (changed) => setState({ of, typed: changed })];
}
