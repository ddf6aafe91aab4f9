import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { scalarZeroValue } from "@bufbuild/protobuf/reflect";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";

/** A message as a record, by the local names of its fields. */
export type Fields = { readonly [localName: string]: unknown };

/** Whether the type is a well-known type, which may have a JSON format of its own. */
export function isWellKnown({ typeName }: DescMessage): boolean {
  return typeName.startsWith("google.protobuf.");
}

/** Whether messages of the field's type are plain JSON objects in it. They are so everywhere but inside of a Value. */
export function holdsJsonObject({ message, parent }: DescField): boolean {
  return message?.typeName === "google.protobuf.Struct" && parent.typeName !== "google.protobuf.Value";
}

/**
 * Makes a function that returns the fields of a type which satisfy `isSuch`, or whose messages may have such fields
 * anywhere inside. It looks at each type once.
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

/**
 * Makes a getter for a field. It returns undefined when the field is not set by protobuf's presence rules. It throws
 * where protobuf-es counts an undefined value as set. There is none for required fields: protobuf-es refuses a message
 * without them.
 */
export function fieldGetter(field: DescField): ((message: Fields) => unknown) | undefined {
  if (field.presence === FeatureSet_FieldPresence.LEGACY_REQUIRED) return undefined;
  const name = field.localName;
  if (field.oneof) {
    const oneofName = field.oneof.localName;
    return (message) => {
      const oneof = message[oneofName] as { readonly case?: string; readonly value?: unknown };
      return oneof.case === name ? defined(oneof.value) : undefined;
    };
  }
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) {
    // A field that is not set may have a default value on the prototype.
    return (message) => (Object.hasOwn(message, name) ? message[name] : undefined);
  }
  switch (field.fieldKind) {
    case "list":
      return (message) => ((message[name] as unknown[]).length > 0 ? message[name] : undefined);
    case "map":
      return (message) => (Object.keys(message[name] as object).length > 0 ? message[name] : undefined);
    case "enum":
      return unlessZero(name, field.enum.values[0]?.number);
    case "message":
      throw new TypeError("messages always have a presence of their own");
    case "scalar":
      if (field.scalar === ScalarType.DOUBLE || field.scalar === ScalarType.FLOAT) {
        // Negative zero counts as set.
        return (message) => (Object.is(message[name], 0) ? undefined : defined(message[name]));
      }
      return unlessZero(name, scalarZeroValue(field.scalar, field.longAsString));
  }
}

function unlessZero(name: string, zero: unknown): (message: Fields) => unknown {
  return (message) => {
    const value = message[name];
    return value === zero ? undefined : defined(value);
  };
}

function defined(value: unknown): unknown {
  if (value === undefined) throw new TypeError("a field that must have a value is undefined");
  return value;
}

/**
 * Whether a value is an object such as JSON.parse makes: not an array, and not an instance of a class, which may have
 * its own `toJSON`.
 */
export function isPlainObject(value: unknown): value is Fields {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
