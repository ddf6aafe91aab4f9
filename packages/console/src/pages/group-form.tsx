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
            Which data source each schema has, on a line each: <code>SCHEMA=SOURCE</code>; or a JSON object. Nothing: it
            has none.
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
            A JSON object, such as <code>{'{"plan": "gold"}'}</code>. Nothing: it has none.
          </>
        }
        rows={8}
        value={texts.properties}
        onValue={(text) => onText("properties", text)}
      />
    </>
  );
}

/** Explains why something is not offered to `ADMIN_TOKEN`. @param what it does, such as `creates a user group` */
export function NeedsEnvironmentToken({ what }: { readonly what: string }) {
  return (
    <NotOffered>
      ADMIN_TOKEN is bound to no environment, so that it neither shows nor makes tokens of user groups. Whoever {what}{" "}
      signs in with an API token of role admin of this environment.
    </NotOffered>
  );
}
