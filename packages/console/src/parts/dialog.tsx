import type { LucideIcon } from "lucide-preact";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { InvalidInput } from "../../../operator/src/input.ts";
import { CommandLine } from "./command.tsx";
import type { CommandProps } from "./command-text.ts";
import { Form, TextField } from "./field.tsx";
import { giveFocusBack } from "./focus.ts";
import { announce, LiveRegion } from "./live.tsx";
import { leave, leaving, useUnsaved } from "./unsaved.ts";
import { Visible } from "./visible.tsx";

export interface Closable {
  /** Runs when the user wants to close the dialog. */
  readonly onClose: () => void;
}

/** Shows a modal dialog. When the dialog closes, the focus returns to the element that opened the dialog. */
export function Dialog({
  title,
  look,
  onClose,
  children,
}: {
  readonly title: string;
  readonly look?: string;
  readonly children: ComponentChildren;
} & Closable) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    const opener = document.activeElement;
    shown?.showModal();
    // Clear the announcement of the page. Otherwise, the live region of the dialog would repeat this announcement.
    announce("");
    return () => {
      shown?.close();
      giveFocusBack(opener);
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={look}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      // At a second Escape, the browser ignores `preventDefault` and closes the dialog, so this handler shows the
      // dialog again. If the component itself has closed the dialog, `dialog.current` is null.
      onClose={() => dialog.current?.showModal()}
    >
      <h2 id={id}>{title}</h2>
      {children}
      <LiveRegion />
    </dialog>
  );
}

interface Change extends Closable {
  readonly title: string;
  /** The id that the user must type to confirm a destructive change. Undefined if the change is not destructive. */
  readonly id?: string | undefined;
  readonly consequence?: string;
  readonly button: string;
  readonly command: CommandProps;
  /** Whether the fields contain unsaved text. Default: no. */
  readonly isUnsaved?: boolean;
  readonly children?: ComponentChildren;
  /** Makes the change. @returns the text to announce. Undefined if there is nothing to announce */
  readonly onConfirm: () => Promise<string | undefined>;
}

/** Shows a dialog with a form that makes a change. */
export function ChangeDialog({
  title,
  id,
  consequence,
  button,
  command,
  isUnsaved = false,
  children,
  onConfirm,
  onClose,
}: Change) {
  useUnsaved(isUnsaved);
  const [typed, setTyped] = useState("");
  const field = `To continue, type ${id}`;
  const close = () => {
    leaving.value = undefined;
    // Clear the announcement of the dialog. Otherwise, the live region of the page would repeat this announcement.
    announce("");
    onClose();
  };
  const confirm = async () => {
    if (id !== undefined && typed !== id)
      throw new InvalidInput(`The typed text is not ${id}: nothing was done.`, field);
    const done = await onConfirm();
    close();
    return done;
  };
  const cancel = (
    <button type="button" onClick={() => leave(close)}>
      Cancel
    </button>
  );
  return (
    <Dialog title={title} onClose={() => leave(close)}>
      {consequence && (
        <p>
          <Visible text={consequence} />
        </p>
      )}
      <Form label={title} submit={button} isDangerous={id !== undefined} act={confirm} beside={cancel}>
        {children}
        {id !== undefined && <TextField label={field} value={typed} onValue={setTyped} />}
      </Form>
      <CommandLine {...command} />
    </Dialog>
  );
}

/** Shows a button that opens a dialog. @param children returns the dialog, which calls `close` to close itself */
export function DialogButton({
  label,
  icon: Icon,
  look,
  children,
}: {
  readonly label: ComponentChildren;
  readonly icon?: LucideIcon;
  readonly look?: "main" | "plain";
  readonly children: (close: () => void) => ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class={look} onClick={() => setOpen(true)}>
        {Icon && <Icon aria-hidden />}
        <span>{label}</span>
      </button>
      {isOpen && children(() => setOpen(false))}
    </>
  );
}

/** Shows a button that opens a `ChangeDialog`. */
export function ChangeButton({
  label,
  icon,
  ...change
}: Omit<Change, "onClose"> & Pick<Parameters<typeof DialogButton>[0], "label" | "icon">) {
  return (
    <DialogButton label={label} icon={icon}>
      {(close) => <ChangeDialog {...change} onClose={close} />}
    </DialogButton>
  );
}
