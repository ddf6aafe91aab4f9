import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { InvalidInput } from "../../../operator/src/input.ts";
import { CommandLine } from "./command.tsx";
import type { CommandProps } from "./command-text.ts";
import { Form, TextField } from "./field.tsx";
import { giveFocusBack } from "./focus.ts";
import { announce, LiveRegion } from "./live.tsx";

/** A dialog over the page. Escape closes it, and the focus returns to what opened it. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    const opener = document.activeElement;
    shown?.showModal();
    // The last announcement belongs to the page.
    announce("");
    return () => {
      shown?.close();
      giveFocusBack(opener);
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
      <LiveRegion />
    </dialog>
  );
}

/** A destructive action. */
interface Ending {
  readonly title: string;
  /** The id that the user has to type. */
  readonly id: string;
  /** The consequence, in sentences. */
  readonly consequence: ComponentChildren;
  /** The words on the button. */
  readonly button: string;
  readonly command: CommandProps;
  /** Further fields. */
  readonly children?: ComponentChildren;
  /** Runs the action. @returns the announcement. Undefined: none */
  readonly onConfirm: () => Promise<string | undefined>;
  readonly onClose: () => void;
}

/** Asks the user to confirm a destructive action by typing an id. */
export function ConfirmDialog({ title, id, consequence, button, command, children, onConfirm, onClose }: Ending) {
  const [typed, setTyped] = useState("");
  const field = `To continue, type ${id}`;
  const close = () => {
    // The page must not repeat the announcement of the dialog.
    announce("");
    onClose();
  };
  const confirm = async () => {
    if (typed !== id) throw new InvalidInput(`This is not ${id}: nothing was done.`, field);
    const done = await onConfirm();
    close();
    return done;
  };
  const cancel = (
    <button type="button" onClick={close}>
      Cancel
    </button>
  );
  return (
    <Dialog title={title} onClose={close}>
      <p>{consequence}</p>
      <Form label={title} submit={button} isDangerous act={confirm} beside={cancel}>
        {children}
        <TextField label={field} value={typed} onValue={setTyped} />
      </Form>
      <CommandLine {...command} />
    </Dialog>
  );
}

/** A button that opens a `ConfirmDialog`. @param label of the button */
export function ConfirmButton({
  label,
  onClose,
  ...ending
}: Omit<Ending, "onClose"> & { readonly label: ComponentChildren; readonly onClose?: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
    onClose?.();
  };
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && <ConfirmDialog {...ending} onClose={close} />}
    </>
  );
}
