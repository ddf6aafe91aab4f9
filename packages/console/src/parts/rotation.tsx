import { useState } from "preact/hooks";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { fieldOf, maxDurationOf } from "../../../operator/src/fields.ts";
import { parseDuration } from "../../../operator/src/times.ts";
import { useAction } from "./calls.ts";
import { CommandLine } from "./command.tsx";
import { ConfirmDialog } from "./dialog.tsx";
import { Form, TextField } from "./field.tsx";

/** The longest grace period, in milliseconds. */
const MAX_GRACE_MS = maxDurationOf(fieldOf(AdminService.method.rotateApiToken.input, "previous_token_ttl")) ?? 0;

/** A form that rotates a token. Without a grace period it asks for a confirmation. */
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
  /** The id that confirms a rotation without a grace period. */
  readonly id: string;
  /** The initial grace period, such as `1h`. */
  readonly grace: string;
  /** What stops working if the old token is revoked at once. */
  readonly consequence: string;
  /** The command of `ugs` that does the same. */
  readonly command: string;
  readonly env?: string | undefined;
  /** Rotates the token. @returns the announcement */
  readonly onRotate: (graceSeconds: number) => Promise<string>;
}) {
  const [typed, setTyped] = useState(grace);
  const [fault, setFault] = useState<string>();
  const [isAsking, setAsking] = useState(false);
  const rotating = useAction(onRotate);
  const graceMs = parseDuration(typed);
  const line = { command, options: ["--grace", typed.trim()], args: [id], env };
  const submit = () => {
    const isValid = graceMs !== undefined && graceMs <= MAX_GRACE_MS && graceMs % 1000 === 0;
    setFault(isValid ? undefined : "Write the grace period as 0s, 30s, 5m, 1h or 30d. 30d is the longest.");
    if (isValid && graceMs > 0) void rotating.run(graceMs / 1000);
    else setAsking(isValid);
  };
  return (
    <>
      <Form label={label} submit={graceMs === 0 ? "Rotate …" : "Rotate"} action={rotating} onSubmit={submit}>
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
