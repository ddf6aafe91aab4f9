import type { DescField } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";

/** A message, by the local names of its fields. */
export type Fields = { readonly [localName: string]: unknown };

/** Makes a function that gives a field's value in a message; undefined when it is not set, by the presence rules of protobuf. */
export function fieldGetter(field: DescField): (message: Fields) => unknown {
  const name = field.localName;
  if (field.oneof) {
    const oneofName = field.oneof.localName;
    return (message) => {
      const oneof = message[oneofName] as { readonly case?: string; readonly value?: unknown };
      return oneof.case === name ? oneof.value : undefined;
    };
  }
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) {
    // What is not set may have a default on the prototype.
    return (message) => (Object.hasOwn(message, name) ? message[name] : undefined);
  }
  switch (field.fieldKind) {
    case "list":
      return (message) => ((message[name] as unknown[]).length > 0 ? message[name] : undefined);
    case "map":
      return (message) => (Object.keys(message[name] as object).length > 0 ? message[name] : undefined);
    case "enum": {
      const zero = field.enum.values[0]?.number;
      return (message) => (message[name] === zero ? undefined : message[name]);
    }
    default:
      return (message) => {
        const value = message[name];
        return value === "" || value === 0n || value === false || Object.is(value, 0) ? undefined : value;
      };
  }
}
