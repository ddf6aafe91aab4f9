import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { focusHeading } from "./focus.ts";
import { announce } from "./live.tsx";
import { capitalized } from "./message.tsx";

/**
 * Copies a text. Browsers allow it only with `https:` and on localhost.
 *
 * @returns whether it is copied
 */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A button that copies a text. @param what it is, such as `the command` */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const onClick = async () => {
    const isDone = await copy(text);
    announce(isDone ? `Copied ${what}.` : `The browser does not allow this page to copy. Select ${what} and copy it.`);
  };
  return (
    <button type="button" class="small" onClick={onClick}>
      Copy <span class="unseen">{what}</span>
    </button>
  );
}

/** A token, or a secret of a webhook, that is shown once. */
export interface ShownSecret {
  /** The purpose of the token. */
  readonly title: string;
  readonly token: string;
  /** What it is called. Default: token. */
  readonly noun?: "token" | "secret";
  /** What to do if the token is lost. */
  readonly lost: string;
}

/** Shows a token once, until the user confirms that it is stored. */
export function Secret({
  title,
  token,
  noun = "token",
  lost,
  onClose,
}: ShownSecret & { readonly onClose: () => void }) {
  const id = useId();
  const box = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => box.current?.focus(), []);
  const onCopy = async () => {
    const isDone = await copy(token);
    // The user can copy the selected text by keyboard.
    if (!isDone) field.current?.select();
    announce(
      isDone
        ? `Copied the ${noun}.`
        : `The browser does not allow this page to copy. The ${noun} is selected: copy it.`,
    );
  };
  return (
    <section class="secret" aria-labelledby={`${id}-title`} ref={box} tabIndex={-1}>
      <h2 id={`${id}-title`}>{title}</h2>
      <p>Store it where it is used. {lost}</p>
      <label for={id}>{capitalized(noun)}</label>
      <input id={id} ref={field} readOnly value={token} autocomplete="off" spellcheck={false} />
      <p class="buttons">
        <button type="button" class="main" onClick={onCopy}>
          Copy the {noun}
        </button>
        <button
          type="button"
          onClick={() => {
            // The box with the focus disappears.
            focusHeading();
            onClose();
          }}
        >
          I have stored it: forget it here
        </button>
      </p>
    </section>
  );
}
