import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { scalarZeroValue } from "@bufbuild/protobuf/reflect";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";

/** A message as a record of its fields, by local name. */
export type Fields = { readonly [localName: string]: unknown };

/** Returns whether a type is a well-known type of protobuf. Such a type may have a special JSON format. */
export function isWellKnown({ typeName }: DescMessage): boolean {
  return typeName.startsWith("google.protobuf.");
}

/**
 * Returns whether protobuf-es stores the values of a field as JSON objects. This is the case for all Struct fields
 * outside the message type Value.
 */
export function holdsJsonObject({ message, parent }: DescField): boolean {
  return message?.typeName === "google.protobuf.Struct" && parent.typeName !== "google.protobuf.Value";
}

/**
 * Creates a function that filters the fields of a type. The function returns the fields that satisfy `isSuch`, and the
 * fields whose messages contain such a field at any depth.
 */
export function fieldsLeadingTo(isSuch: (field: DescField) => boolean): (desc: DescMessage) => readonly DescField[] {
  const leads = (field: DescField, seen: Set<DescMessage>): boolean => {
    if (isSuch(field)) return true;
    if (!field.message || seen.has(field.message)) return false;
    seen.add(field.message);
    return field.message.fields.some((inner) => leads(inner, seen));
  };
  const known = new Map<DescMessage, readonly DescField[]>();
  return (desc) => {
    const fields = known.get(desc) ?? desc.fields.filter((field) => leads(field, new Set()));
    known.set(desc, fields);
    return fields;
  };
}

/** The condition under which a field counts as set. */
export interface Presence {
  readonly name: string;
  readonly oneof: string | undefined;
  readonly kind: "in-oneof" | "explicit" | "list" | "map" | "implicit";
  /** The value that counts as unset. Only for the kind `implicit`. */
  readonly zero: unknown;
}

/** Returns the presence of a field; undefined for a required field, because the encoders do not support such fields. */
export function presenceOf(field: DescField): Presence | undefined {
  if (field.presence === FeatureSet_FieldPresence.LEGACY_REQUIRED) return undefined;
  const { fieldKind } = field;
  const presence = { name: field.localName, oneof: field.oneof?.localName, zero: undefined };
  if (field.oneof) return { ...presence, kind: "in-oneof" };
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) return { ...presence, kind: "explicit" };
  if (fieldKind === "list" || fieldKind === "map") return { ...presence, kind: fieldKind };
  if (fieldKind === "enum") return { ...presence, kind: "implicit", zero: field.enum.values[0]?.number };
  if (fieldKind === "message") throw new TypeError("a message field always has explicit presence");
  return { ...presence, kind: "implicit", zero: scalarZeroValue(field.scalar, field.longAsString) };
}

/** Returns the value of a field; undefined if the field is not set. @throws TypeError if a set field has no value */
export function presentValue(message: Fields, { name, oneof, kind, zero }: Presence): unknown {
  let value = message[name];
  switch (kind) {
    case "in-oneof": {
      const chosen = message[oneof as string] as { readonly case?: string; readonly value?: unknown };
      if (chosen.case !== name) return undefined;
      value = chosen.value;
      break;
    }
    case "explicit":
      // An unset field may have a default value on the prototype.
      return Object.hasOwn(message, name) ? value : undefined;
    case "list":
      return (value as unknown[]).length > 0 ? value : undefined;
    case "map":
      return Object.keys(value as object).length > 0 ? value : undefined;
    case "implicit":
      if (value === zero) return undefined;
  }
  if (value === undefined) throw new TypeError("a field that must have a value is undefined");
  return value;
}

/** Arrays and class instances are not plain, because they may have a `toJSON` method. */
export function isPlainObject(value: unknown): value is Fields {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
