import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";
import type { Action } from "./calls.ts";
import { FailureBox } from "./failure.tsx";
import { useUnsaved } from "./unsaved.ts";

interface FieldText {
  readonly label: string;
  /** What to write, and what it means. */
  readonly hint?: ComponentChildren;
  /** What is wrong with the text. Undefined: nothing. */
  readonly fault?: string | undefined;
}

/** The attributes that connect an input with its label, hint and fault. */
interface Tied {
  readonly id: string;
  readonly "aria-describedby": string | undefined;
  readonly "aria-invalid": boolean;
}

/** A field of a form, with its label, hint and fault. @param children makes the input */
function Field({ label, hint, fault, children }: FieldText & { readonly children: (tied: Tied) => ComponentChildren }) {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ");
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {hint && (
        <p id={`${id}-hint`} class="small">
          {hint}
        </p>
      )}
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": fault !== undefined })}
      {fault && (
        <p id={`${id}-fault`} class="fault">
          {fault}
        </p>
      )}
    </div>
  );
}

/** The browser neither stores, completes nor changes the text. */
const PLAIN = { autocomplete: "off", autocapitalize: "off", spellcheck: false } as const;

/** A field for one line of text. */
export function TextField({
  label,
  hint,
  fault,
  value,
  onValue,
  ...input
}: FieldText & { readonly value: string; readonly onValue: (value: string) => void } & Pick<
    JSX.IntrinsicElements["input"],
    "type" | "maxLength"
  >) {
  return (
    <Field label={label} hint={hint} fault={fault}>
      {(tied) => (
        <input {...PLAIN} {...input} {...tied} value={value} onInput={(event) => onValue(event.currentTarget.value)} />
      )}
    </Field>
  );
}

/** A field for text of several lines. */
export function AreaField({
  label,
  hint,
  value,
  onValue,
  rows = 8,
}: Omit<FieldText, "fault"> & {
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly rows?: number;
}) {
  return (
    <Field label={label} hint={hint}>
      {(tied) => (
        <textarea
          {...PLAIN}
          {...tied}
          rows={rows}
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A field to choose one of some values. */
export function SelectField({
  label,
  value,
  onValue,
  options,
}: Pick<FieldText, "label"> & {
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly options: readonly (readonly [value: string, words: string])[];
}) {
  return (
    <Field label={label}>
      {(tied) => (
        <select {...tied} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
          {options.map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
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
  action: { isBusy, error } = { isBusy: false, error: undefined },
  isDangerous = false,
  isOfSignIn = false,
  isUnsaved = false,
  onSubmit,
  beside,
  children,
}: {
  /** The accessible name of the form. */
  readonly label: string;
  /** The words on its button. */
  readonly submit: string;
  /** The action of the form. Default: an action that cannot fail. */
  readonly action?: Pick<Action<never>, "isBusy" | "error">;
  /** Whether the action is destructive. Default: no. */
  readonly isDangerous?: boolean;
  /** Whether its action signs in. Default: no. */
  readonly isOfSignIn?: boolean;
  /** Whether it contains unsaved text. Default: no. */
  readonly isUnsaved?: boolean;
  readonly onSubmit: () => void;
  /** Beside the button. */
  readonly beside?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  useUnsaved(isUnsaved);
  return (
    <form
      aria-label={label}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) onSubmit();
      }}
    >
      {children}
      <FailureBox error={error} isOfSignIn={isOfSignIn} />
      <p class="buttons">
        <button type="submit" class={isDangerous ? "dangerous" : "main"} aria-disabled={isBusy}>
          {isBusy ? "Wait …" : submit}
        </button>
        {beside}
      </p>
    </form>
  );
}
