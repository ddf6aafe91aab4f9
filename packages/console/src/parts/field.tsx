import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useId } from "preact/hooks";
import { InvalidInput } from "../../../operator/src/input.ts";
import { useAction } from "./calls.ts";
import { FailureBox } from "./failure.tsx";
import { useUnsaved } from "./unsaved.ts";

/** The error of the form around a field, and the id of its description. */
const FormError = createContext<{ readonly error: unknown; readonly id: string }>({ error: undefined, id: "" });

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

/** A field for text. @param rows for text of several lines: their number */
export function TextField({
  label,
  hint,
  value,
  onValue,
  rows,
  ...input
}: FieldProps & {
  /** What to write, and what it means. */
  readonly hint?: ComponentChildren;
  readonly rows?: number;
} & Pick<JSX.IntrinsicElements["input"], "type" | "maxLength">) {
  const id = useId();
  const failure = useContext(FormError);
  const isInvalid = failure.error instanceof InvalidInput && failure.error.field === label;
  const described = [hint && `${id}-hint`, isInvalid && failure.id].filter(Boolean).join(" ");
  const attributes = {
    id,
    "aria-describedby": described || undefined,
    "aria-invalid": isInvalid,
    // The browser neither stores, completes nor changes the text.
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

/** A field that offers a choice of values. */
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

/** A box to tick. */
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

/** A form. Below its fields it shows the error of its action. */
export function Form({
  label,
  submit,
  isDangerous = false,
  isOfSignIn = false,
  isUnsaved = false,
  isInLine = false,
  act,
  beside,
  children,
}: {
  /** The accessible name of the form. */
  readonly label: string;
  /** The words on its button. */
  readonly submit: string;
  /** Whether the action is destructive. Default: no. */
  readonly isDangerous?: boolean;
  /** Whether its action signs in. Default: no. */
  readonly isOfSignIn?: boolean;
  /** Whether it contains unsaved text. Default: no. */
  readonly isUnsaved?: boolean;
  /** Whether the button is beside the fields. Default: no. */
  readonly isInLine?: boolean;
  /** As for `useAction`. */
  readonly act: Parameters<typeof useAction>[0];
  /** Beside the button. */
  readonly beside?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  useUnsaved(isUnsaved);
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
        <FailureBox error={error} isOfSignIn={isOfSignIn} />
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
