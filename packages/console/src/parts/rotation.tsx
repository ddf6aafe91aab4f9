import { useState } from "preact/hooks";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { fieldOf, maxDurationOf } from "../../../operator/src/fields.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { parseDuration } from "../../../operator/src/times.ts";
import { ChangeDialog } from "./dialog.tsx";
import { TextField } from "./field.tsx";

const FIELD = "Grace period";

/** The maximum grace period, in milliseconds. */
const MAX_GRACE_MS = maxDurationOf(fieldOf(AdminService.method.rotateApiToken.input, "previous_token_ttl")) ?? 0;

/** Rotates a token in a dialog. If the grace period is zero, the user must type the id. */
export function RotationDialog({
  title,
  id,
  grace,
  consequence,
  command,
  env,
  onRotate,
  onClose,
}: {
  readonly title: string;
  readonly id: string;
  /** The initial text of the grace period, such as `1h`. */
  readonly grace: string;
  /** The consequence of the rotation if the grace period is zero. */
  readonly consequence: string;
  readonly command: string;
  readonly env?: string | undefined;
  /** Rotates the token. @returns the text to announce */
  readonly onRotate: (graceSeconds: number) => Promise<string>;
  readonly onClose: () => void;
}) {
  const [typed, setTyped] = useState(grace);
  const graceMs = parseDuration(typed);
  const isAtOnce = graceMs === 0;
  const rotate = async () => {
    if (graceMs === undefined || graceMs > MAX_GRACE_MS || graceMs % 1000 !== 0)
      throw new InvalidInput(
        "Write the grace period as a number and a unit, such as 0s, 30s, 5m or 1h. The maximum is 30d.",
        FIELD,
      );
    return onRotate(graceMs / 1000);
  };
  return (
    <ChangeDialog
      title={title}
      id={isAtOnce ? id : undefined}
      consequence={isAtOnce ? consequence : "The old token stays valid for the grace period."}
      button="Rotate"
      command={{ command, options: { grace: typed.trim() }, args: [id], env }}
      onConfirm={rotate}
      onClose={onClose}
    >
      <TextField
        label={FIELD}
        hint="How long the old token stays valid, such as 1h. With 0s, the old token is revoked at once."
        value={typed}
        onValue={setTyped}
      />
    </ChangeDialog>
  );
}
