import type { DescField } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";

/** A message, by the local names of its fields. */
export type Fields = { readonly [localName: string]: unknown };

/** Whether a field of a message is set, by the presence rules of protobuf. */
export function isSet(message: Fields, field: DescField): boolean {
  const name = field.localName;
  if (field.oneof) return (message[field.oneof.localName] as { case?: string }).case === name;
  const value = message[name];
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) return value !== undefined && Object.hasOwn(message, name);
  switch (field.fieldKind) {
    case "list":
      return (value as unknown[]).length > 0;
    case "map":
      for (const _ in value as object) return true;
      return false;
    case "enum":
      return value !== field.enum.values[0]?.number;
    default:
      return !(value === "" || value === 0n || value === false || Object.is(value, 0));
  }
}

/** The value of a field that is set. */
export function fieldValue(message: Fields, field: DescField): unknown {
  if (field.oneof) return (message[field.oneof.localName] as { value?: unknown }).value;
  return message[field.localName];
}
