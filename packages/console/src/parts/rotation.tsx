import type { Duration } from "@bufbuild/protobuf/wkt";
import { useState } from "preact/hooks";
import { durationIn } from "../../../operator/src/input.ts";
import { parseDuration } from "../../../operator/src/times.ts";
import { ChangeDialog } from "./dialog.tsx";
import { TextField } from "./field.tsx";

const FIELD = "Grace period";

/** Rotates a token in a dialog. If the grace period is zero, the user must type the id. */
export function RotationDialog({
  title,
  id,
  grace,
  consequence,
  command,
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
  /** Rotates the token. @returns the text to announce */
  readonly onRotate: (previousTokenTtl: Duration) => Promise<string>;
  readonly onClose: () => void;
}) {
  const [typed, setTyped] = useState(grace);
  const isAtOnce = parseDuration(typed) === 0;
  return (
    <ChangeDialog
      title={title}
      id={isAtOnce ? id : undefined}
      consequence={isAtOnce ? consequence : "The old token stays valid for the grace period."}
      button="Rotate"
      command={{ command, options: { grace: typed.trim() }, args: [id] }}
      onConfirm={async () => onRotate(durationIn(FIELD, typed))}
      onClose={onClose}
    >
      <TextField
        label={FIELD}
        hint="The time for which the old token stays valid, such as 1h. The maximum is 30d. With 0s, the service revokes the old token at once."
        value={typed}
        onValue={setTyped}
      />
    </ChangeDialog>
  );
}
