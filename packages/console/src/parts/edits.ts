import { useState } from "preact/hooks";

/**
 * Edits stored values. A field shows the stored value until the user changes the field.
 *
 * @returns `values`: the values to show. `changed`: the names of the values that differ from the stored values
 */
export function useEdits<T extends object>(stored: T) {
  const [edited, setEdited] = useState<Partial<T>>({});
  const values: T = { ...stored, ...edited };
  const names = Object.keys(stored) as (keyof T & string)[];
  return {
    values,
    changed: names.filter((name) => String(values[name]) !== String(stored[name])),
    edit: (changes: Partial<T>) => setEdited({ ...edited, ...changes }),
  };
}
