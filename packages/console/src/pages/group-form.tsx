import type { DescField } from "@bufbuild/protobuf";
import { UpdateUserGroupRequestSchema } from "../../../../gen/usergroup/v1/user_group_service_pb.ts";
import {
  entriesOf,
  groupFieldsOf,
  isJsonField,
  isObject,
  isTimeField,
  labelOf,
  valueIn,
} from "../../../operator/src/fields.ts";
import { formatField, parseField } from "../../../operator/src/input.ts";
import type { CommandProps } from "../parts/command-text.ts";
import { type Fields, TextField } from "../parts/field.tsx";
import { capitalized } from "../parts/message.tsx";

const FIELDS = groupFieldsOf(UpdateUserGroupRequestSchema);

/** The texts in the form, by the name of the field. */
export type GroupTexts = { readonly [field: string]: string };

export const FIELD_NAMES: readonly string[] = FIELDS.map(({ name }) => name);

export const NO_TEXTS: GroupTexts = Object.fromEntries(FIELD_NAMES.map((name) => [name, ""]));

/** Formats the fields of a user group as texts that the user can edit. */
export function textsOf(group: object): GroupTexts {
  return Object.fromEntries(FIELDS.map((field) => [field.name, formatField(field, valueIn(group, field))]));
}

/** Parses the texts of the form to the fields of a request. @throws InvalidInput if a text is not valid */
export function fieldsIn(texts: GroupTexts): { readonly [field: string]: unknown } {
  return Object.fromEntries(FIELDS.map((field) => [field.localName, parseField(field, texts[field.name] ?? "")]));
}

/** Returns the `ugs` options for the non-empty fields in `names`. A placeholder replaces a text that is not valid. */
export function optionsFor(texts: GroupTexts, names = FIELD_NAMES): CommandProps["options"] {
  const chosen = FIELDS.filter(({ name }) => names.includes(name) && texts[name]?.trim());
  return Object.fromEntries(
    chosen.map((field) => [field.name.replaceAll("_", "-"), optionOf(field, texts[field.name] ?? "")]),
  );
}

function optionOf(field: DescField, text: string): string | string[] {
  try {
    const value = parseField(field, text);
    if (!isObject(value) || isTimeField(field)) return text;
    if (field.fieldKind !== "map") return JSON.stringify(value);
    // The option has the form SCHEMA=SOURCE, so it cannot express a key that contains `=`.
    if (Object.keys(value).every((key) => !key.includes("="))) return entriesOf(value as { [key: string]: string });
  } catch {
    // While the user types, the text may not be valid yet.
  }
  return field.fieldKind === "map" ? ["SCHEMA=SOURCE"] : "FILE";
}

export function GroupFieldset({
  field,
  hints = {},
}: Pick<Fields<GroupTexts>, "field"> & {
  /** Additional hints, by the name of the field. */
  readonly hints?: { readonly [field: string]: string };
}) {
  return (
    <>
      {FIELDS.map((desc) => {
        const { name, fieldKind } = desc;
        const input = { label: capitalized(labelOf(desc)), ...field(name) };
        if (isTimeField(desc)) return <TextField key={name} {...input} hint={TIME_HINT} />;
        if (fieldKind === "map") return <TextField key={name} {...input} hint={MAP_HINT} rows={3} />;
        if (isJsonField(desc)) return <TextField key={name} {...input} hint={JSON_HINT} rows={8} />;
        return <TextField key={name} {...input} hint={hints[name]} />;
      })}
    </>
  );
}

const MAP_HINT = (
  <>
    One entry per line, in the form <code>SCHEMA=SOURCE</code>, or a JSON object. If empty, the group has no mapping.
  </>
);

const TIME_HINT =
  "The service suspends the group at this time. Write a time, a date, or a duration such as 14d from now. If empty, the group does not expire.";

const JSON_HINT = (
  <>
    A JSON object, such as <code>{'{"plan": "gold"}'}</code>. If empty, the group has no properties.
  </>
);

/**
 * Explains that an action needs an API token of the environment.
 *
 * @param what the action, such as `create a user group`
 */
export function EnvironmentTokenNote({ what }: { readonly what: string }) {
  return (
    <p class="note">
      To {what}, sign in with an API token of this environment with the role admin. ADMIN_TOKEN cannot do this.
    </p>
  );
}
