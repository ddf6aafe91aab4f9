import { parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { ChangeDialog, type Closable } from "../parts/dialog.tsx";
import { SelectField, TextField, useFields } from "../parts/field.tsx";
import { useSession } from "../session/session.ts";

const TAG_OPTIONS = [
  ["", "none"],
  ["Customer", "Customer"],
  ["Testing", "Testing"],
] as const;

/** Creates an environment in a dialog. @param onDone receives the name of the environment */
export function CreateEnvironment({ onDone, onClose }: { readonly onDone: (name: string) => void } & Closable) {
  const { admin } = useSession();
  const { values, field } = useFields({ name: "", tag: "" });
  const { name, tag } = values;
  const whole = tag ? `${name}/${tag}` : name;
  const create = async () => {
    const environment = parseEnvironmentName(whole);
    if (!environment)
      throw new InvalidInput("A name has 1 to 64 characters: ASCII letters, digits, '.', '_' or '-'.", "Name");
    await admin.createEnvironment({ environment });
    onDone(whole);
    return `Created the environment ${whole}.`;
  };
  return (
    <ChangeDialog
      title="New environment"
      button="Create"
      command={{ command: "env create", args: [name ? whole : "NAME"], env: undefined }}
      isUnsaved={name !== ""}
      onConfirm={create}
      onClose={onClose}
    >
      <TextField label="Name" {...field("name")} />
      <SelectField label="Tag" {...field("tag")} options={TAG_OPTIONS} />
    </ChangeDialog>
  );
}
