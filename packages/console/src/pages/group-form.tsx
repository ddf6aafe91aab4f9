import type { GroupTexts } from "../group-fields.ts";
import { AreaField, TextField } from "../parts/field.tsx";
import { NotOffered } from "../parts/page.tsx";

/** The fields of a user group that a person writes. */
export function GroupFieldset({
  texts,
  nameHint,
  onText,
}: {
  readonly texts: GroupTexts;
  readonly nameHint?: string;
  readonly onText: (field: keyof GroupTexts, text: string) => void;
}) {
  return (
    <>
      <TextField label="Name" hint={nameHint} value={texts.name} onValue={(text) => onText("name", text)} />
      <AreaField
        label="Mapping"
        hint={
          <>
            The data source of each schema, one per line: <code>SCHEMA=SOURCE</code>. Or a JSON object. Empty: no
            mapping.
          </>
        }
        rows={3}
        value={texts.mapping}
        onValue={(text) => onText("mapping", text)}
      />
      <AreaField
        label="Properties"
        hint={
          <>
            A JSON object, such as <code>{'{"plan": "gold"}'}</code>. Empty: no properties.
          </>
        }
        rows={8}
        value={texts.properties}
        onValue={(text) => onText("properties", text)}
      />
    </>
  );
}

/** Explains why something is not offered to `ADMIN_TOKEN`. @param what such as `create a user group` */
export function NeedsEnvironmentToken({ what }: { readonly what: string }) {
  return (
    <NotOffered>
      ADMIN_TOKEN has no environment of its own. To {what}, sign in with an API token of role admin of this environment.
    </NotOffered>
  );
}
