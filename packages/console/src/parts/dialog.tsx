import type { LucideIcon } from "lucide-preact";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { InvalidInput } from "../../../operator/src/input.ts";
import { CommandLine } from "./command.tsx";
import type { CommandProps } from "./command-text.ts";
import { Form, TextField } from "./field.tsx";
import { giveFocusBack } from "./focus.ts";
import { announce, LiveRegion } from "./live.tsx";
import { leave, leaving } from "./unsaved.ts";
import { Visible } from "./visible.tsx";

/** The properties of a dialog that the user can close. */
export interface Closable {
  /** Called when the user wants to close the dialog. */
  readonly onClose: () => void;
}

/** A dialog over the page. Escape closes it, and the focus returns to the element that opened it. */
export function Dialog({
  title,
  look,
  onClose,
  children,
}: {
  readonly title: string;
  /** A class of the style sheet. */
  readonly look?: string;
  readonly children: ComponentChildren;
} & Closable) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isShown = useRef(true);
  const id = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    const opener = document.activeElement;
    shown?.showModal();
    // Screen readers must not read an announcement of the page in the dialog.
    announce("");
    return () => {
      isShown.current = false;
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
      onClose={() => {
        // On a second Escape, the browser closes a dialog without asking the page.
        if (isShown.current) dialog.current?.showModal();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
      <LiveRegion />
    </dialog>
  );
}

/** A change that a dialog requests. */
interface Change {
  readonly title: string;
  /** The id that the user has to type before a destructive change. Undefined: the change destroys nothing. */
  readonly id?: string | undefined;
  /** The consequence, in sentences. */
  readonly consequence?: ComponentChildren;
  /** The words on the button. */
  readonly button: string;
  readonly command: CommandProps;
  /** Whether the fields contain unsaved text. Default: no. */
  readonly isUnsaved?: boolean;
  /** The fields. */
  readonly children?: ComponentChildren;
  /** Makes the change. @returns the announcement. Undefined: none */
  readonly onConfirm: () => Promise<string | undefined>;
  readonly onClose: () => void;
}

/** A dialog with the form of a change. */
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
  const [typed, setTyped] = useState("");
  const field = `To continue, type ${id}`;
  const close = () => {
    leaving.value = undefined;
    // The page must not repeat the announcement of the dialog.
    announce("");
    onClose();
  };
  const confirm = async () => {
    if (id !== undefined && typed !== id) throw new InvalidInput(`This is not ${id}: nothing was done.`, field);
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
      {consequence && <p>{typeof consequence === "string" ? <Visible text={consequence} /> : consequence}</p>}
      <Form
        label={title}
        submit={button}
        isDangerous={id !== undefined}
        isUnsaved={isUnsaved}
        act={confirm}
        beside={cancel}
      >
        {children}
        {id !== undefined && <TextField label={field} value={typed} onValue={setTyped} />}
      </Form>
      <CommandLine {...command} />
    </Dialog>
  );
}

/**
 * A button that opens a dialog.
 *
 * @param children returns the dialog. It receives the function that closes the dialog
 */
export function DialogButton({
  label,
  icon: Icon,
  look,
  children,
}: {
  readonly label: ComponentChildren;
  readonly icon?: LucideIcon;
  /** A class of the style sheet. */
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

/** A button that opens a `ChangeDialog` without state. */
export function ChangeButton({
  label,
  icon,
  look,
  onClose,
  ...change
}: Omit<Change, "onClose"> & Omit<Parameters<typeof DialogButton>[0], "children"> & { readonly onClose?: () => void }) {
  return (
    <DialogButton label={label} {...(icon && { icon })} {...(look && { look })}>
      {(close) => (
        <ChangeDialog
          {...change}
          onClose={() => {
            close();
            onClose?.();
          }}
        />
      )}
    </DialogButton>
  );
}
