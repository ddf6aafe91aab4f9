import { Copy } from "lucide-preact";
import { useId, useRef } from "preact/hooks";
import { copyText } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { announce } from "./live.tsx";
import { capitalized } from "./message.tsx";

/** A token or a webhook secret, and the texts of the dialog that shows the token or secret. */
export interface ShownSecret {
  readonly title: string;
  readonly token: string;
  /** The name of the secret in the texts of the dialog. Default: token. */
  readonly noun?: "token" | "secret";
  /** Advice if the user loses the secret. */
  readonly lost: string;
}

/** Shows a secret once. The dialog stays open until the user confirms that the secret is stored. */
export function SecretDialog({
  title,
  token,
  noun = "token",
  lost,
  onClose,
}: ShownSecret & { readonly onClose: () => void }) {
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const onCopy = async () => {
    const isDone = await copyText(token);
    // If the browser does not allow the page to copy, select the secret. The user can then copy the secret by keyboard.
    if (!isDone) field.current?.select();
    announce(
      isDone
        ? `Copied the ${noun}.`
        : `The browser does not allow this page to copy. The ${noun} is selected. Copy the ${noun} with the keyboard.`,
    );
  };
  const keep = () =>
    announce(`The ${noun} is shown only once. Store the ${noun}, then choose "I have stored the ${noun}".`);
  return (
    <Dialog title={title} onClose={keep}>
      <p>
        Store the {noun} where your system uses it. {lost}
      </p>
      <div class="field">
        <label for={id}>{capitalized(noun)}</label>
        <input id={id} class="secret" ref={field} readOnly value={token} autocomplete="off" spellcheck={false} />
      </div>
      <p class="buttons">
        <button type="button" class="main" onClick={onCopy}>
          <Copy aria-hidden />
          Copy the {noun}
        </button>
        <button
          type="button"
          onClick={() => {
            announce("");
            onClose();
          }}
        >
          I have stored the {noun}: close
        </button>
      </p>
    </Dialog>
  );
}
