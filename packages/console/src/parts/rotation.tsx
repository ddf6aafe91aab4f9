import { useState } from "preact/hooks";
import { parseDuration } from "../words.ts";
import { useAction } from "./calls.ts";
import { CommandLine } from "./command.tsx";
import { ConfirmDialog } from "./dialog.tsx";
import { Form, TextField } from "./field.tsx";

/** The longest grace period, in seconds. */
const MAX_GRACE = 30 * 86_400;

/** A form that rotates a token. It shows the grace period, and asks first if the old token is to be revoked at once. */
export function RotationForm({
  label,
  id,
  grace,
  consequence,
  command,
  env,
  onRotate,
}: {
  readonly label: string;
  /** The id that has to be typed if the grace period is 0. */
  readonly id: string;
  /** The grace period that the field begins with, such as `1h`. */
  readonly grace: string;
  /** What stops working if the old token is revoked at once. */
  readonly consequence: string;
  /** The words of the command that does the same. */
  readonly command: string;
  readonly env?: string | undefined;
  /** Rotates the token. @returns the announcement */
  readonly onRotate: (graceSeconds: number) => Promise<string>;
}) {
  const [typed, setTyped] = useState(grace);
  const [fault, setFault] = useState<string>();
  const [isAsking, setAsking] = useState(false);
  const rotating = useAction(onRotate);
  const seconds = parseDuration(typed);
  const line = { command, options: ["--grace", typed.trim()], args: [id], env };
  const submit = () => {
    const isValid = seconds !== undefined && seconds <= MAX_GRACE;
    setFault(isValid ? undefined : "Write the grace period as 0s, 30s, 5m, 1h or 30d. 30d is the longest.");
    if (isValid && seconds > 0) void rotating.run(seconds);
    else setAsking(isValid);
  };
  return (
    <>
      <Form label={label} submit={seconds === 0 ? "Rotate …" : "Rotate"} action={rotating} onSubmit={submit}>
        <TextField
          label="Grace period"
          hint="How long the old token stays valid, such as 1h. 0s: the old token is revoked at once."
          value={typed}
          onValue={setTyped}
          fault={fault}
        />
      </Form>
      <CommandLine {...line} />
      {isAsking && (
        <ConfirmDialog
          title={label}
          id={id}
          consequence={consequence}
          button="Rotate it"
          command={line}
          onConfirm={async () => {
            // The form shows the result: a new token cannot get the focus while this dialog is open.
            void rotating.run(0);
            return undefined;
          }}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}
