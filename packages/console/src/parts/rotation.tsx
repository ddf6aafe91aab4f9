import { useState } from "preact/hooks";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { fieldOf, maxDurationOf } from "../../../operator/src/fields.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { parseDuration } from "../../../operator/src/times.ts";
import { CommandLine } from "./command.tsx";
import { ConfirmDialog } from "./dialog.tsx";
import { Form, TextField } from "./field.tsx";

/** The label of the field. */
const FIELD = "Grace period";

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
  /** The effect of revoking the old token at once. */
  readonly consequence: string;
  /** The command of `ugs` that does the same. */
  readonly command: string;
  readonly env?: string | undefined;
  /** Rotates the token. @returns the announcement */
  readonly onRotate: (graceSeconds: number) => Promise<string>;
}) {
  const [typed, setTyped] = useState(grace);
  /** Receives the answer of the confirmation. Undefined: none is open. */
  const [confirmed, setConfirmed] = useState<(isConfirmed: boolean) => void>();
  const graceMs = parseDuration(typed);
  const line = { command, options: { grace: typed.trim() }, args: [id], env };
  const rotate = async () => {
    if (graceMs === undefined || graceMs > MAX_GRACE_MS || graceMs % 1000 !== 0)
      throw new InvalidInput("Write the grace period as 0s, 30s, 5m, 1h or 30d. 30d is the longest.", FIELD);
    // The rotation starts after the dialog was closed, because the new token cannot get the focus while it is open.
    if (graceMs === 0 && !(await new Promise<boolean>((resolve) => setConfirmed(() => resolve)))) return undefined;
    return onRotate(graceMs / 1000);
  };
  return (
    <>
      <Form label={label} submit={graceMs === 0 ? "Rotate …" : "Rotate"} act={rotate}>
        <TextField
          label={FIELD}
          hint="How long the old token stays valid, such as 1h. 0s: the old token is revoked at once."
          value={typed}
          onValue={setTyped}
        />
      </Form>
      <CommandLine {...line} />
      {confirmed && (
        <ConfirmDialog
          title={label}
          id={id}
          consequence={consequence}
          button="Rotate it"
          command={line}
          onConfirm={async () => {
            confirmed(true);
            return undefined;
          }}
          onClose={() => {
            confirmed(false);
            setConfirmed(undefined);
          }}
        />
      )}
    </>
  );
}
