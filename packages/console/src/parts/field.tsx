import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useId, useState } from "preact/hooks";
import { InvalidInput } from "../../../operator/src/input.ts";
import { useAction } from "./calls.ts";
import { FailureBox } from "./failure.tsx";

/** The error of the form around a field, and the id of the element that shows the error. */
const FormError = createContext<{ readonly error: unknown; readonly id: string }>({ error: undefined, id: "" });

/** The state of the fields of a form. */
export interface Fields<T> {
  readonly values: T;
  /** The names of the fields whose values differ from the stored values. */
  readonly changed: (keyof T & string)[];
  /** Returns the properties that a field component needs to show and change the value. */
  readonly field: <Name extends keyof T>(
    name: Name,
  ) => { readonly value: T[Name]; readonly onValue: (value: T[Name]) => void };
}

/** Creates the state of a form. A field shows the value in `stored` until the user changes the field. */
export function useFields<T extends object>(stored: T): Fields<T> {
  const [edited, setEdited] = useState<Partial<T>>({});
  const values: T = { ...stored, ...edited };
  const names = Object.keys(stored) as (keyof T & string)[];
  return {
    values,
    changed: names.filter((name) => String(values[name]) !== String(stored[name])),
    field: (name) => ({ value: values[name], onValue: (value) => setEdited({ ...edited, [name]: value }) }),
  };
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

/** @param rows the number of rows. If undefined, the field has a single line */
export function TextField({
  label,
  hint,
  value,
  onValue,
  rows,
  ...input
}: FieldProps & {
  readonly hint?: ComponentChildren;
  readonly rows?: number;
} & Pick<JSX.IntrinsicElements["input"], "type">) {
  const id = useId();
  const failure = useContext(FormError);
  const isInvalid = failure.error instanceof InvalidInput && failure.error.field === label;
  const described = [hint && `${id}-hint`, isInvalid && failure.id].filter(Boolean).join(" ");
  const attributes = {
    id,
    "aria-describedby": described || undefined,
    "aria-invalid": isInvalid,
    // The browser must neither store, complete nor correct the text.
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: false,
    value,
    onInput: (event: { readonly currentTarget: { readonly value: string } }) => onValue(event.currentTarget.value),
  } as const;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {hint && (
        <p id={`${id}-hint`} class="small">
          {hint}
        </p>
      )}
      {rows === undefined ? <input {...attributes} {...input} /> : <textarea {...attributes} rows={rows} />}
    </div>
  );
}

export function SelectField({
  label,
  value,
  onValue,
  options,
}: FieldProps & { readonly options: readonly (readonly [value: string, words: string])[] }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
        {options.map(([each, words]) => (
          <option key={each} value={each}>
            {words}
          </option>
        ))}
      </select>
    </div>
  );
}

export function CheckField({
  label,
  value,
  onValue,
}: {
  readonly label: string;
  readonly value: boolean;
  readonly onValue: (value: boolean) => void;
}) {
  const id = useId();
  return (
    <p class="check">
      <input id={id} type="checkbox" checked={value} onChange={(event) => onValue(event.currentTarget.checked)} />
      <label for={id}>{label}</label>
    </p>
  );
}

/** Shows a form. If the action of the form fails, the form shows the error below the fields. */
export function Form({
  label,
  submit,
  isDangerous = false,
  isOfSignIn = false,
  isRead,
  isInLine = false,
  act,
  beside,
  children,
}: {
  readonly label: string;
  readonly submit: string;
  readonly isDangerous?: boolean;
  /** Whether the action signs in. Default: no. */
  readonly isOfSignIn?: boolean;
  /** Whether the action only reads data. Default: yes if the action signs in. */
  readonly isRead?: boolean;
  /** Whether the button is beside the fields. Default: no. */
  readonly isInLine?: boolean;
  readonly act: Parameters<typeof useAction>[0];
  readonly beside?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  const { run, isBusy, error } = useAction(act);
  const errorId = useId();
  return (
    <form
      class={isInLine ? "in-line" : undefined}
      aria-label={label}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        run();
      }}
    >
      <FormError.Provider value={{ error, id: errorId }}>{children}</FormError.Provider>
      <div id={errorId}>
        <FailureBox error={error} isOfSignIn={isOfSignIn} isRead={isRead} />
      </div>
      <p class="buttons">
        <button type="submit" class={isDangerous ? "dangerous" : "main"} aria-disabled={isBusy}>
          {isBusy ? "Wait …" : submit}
        </button>
        {beside}
      </p>
    </form>
  );
}

/** @throws InvalidInput if no field was changed */
export function requireChanges(changed: readonly string[]): void {
  if (changed.length === 0) throw new InvalidInput("Nothing to save: no field was changed.");
}
