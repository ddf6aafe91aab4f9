import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { type Fields, fieldsLeadingTo, holdsJsonObject } from "./fields.ts";

const STRUCT = "google.protobuf.Struct";

/**
 * Creates a variant of a message type in which google.protobuf.Struct fields contain messages instead of JSON objects.
 * Returns undefined if the type contains no Struct field.
 *
 * The caller decodes the bytes as the variant and passes the message to `restore`, which converts each field once. If
 * the caller decoded the original type, protobuf-es would convert the JSON object to a message and back at each
 * occurrence of the field. For example, a 52 KB request that repeats one field would take 30 seconds.
 */
export function structDetour(desc: DescMessage) {
  if (fieldsWithStructs(desc).length === 0) return undefined;
  return { desc: variantOf(desc, new Map()), restore: (message: Message) => restore(desc, message) };
}

/** Returns whether protobuf-es merges repeated occurrences of the field into one JSON object. */
function isMergedStruct(field: DescField): boolean {
  return field.fieldKind === "message" && holdsJsonObject(field);
}

const fieldsWithStructs = fieldsLeadingTo(isMergedStruct);

function variantOf(desc: DescMessage, known: Map<DescMessage, DescMessage>): DescMessage {
  const made = known.get(desc);
  if (made) return made;
  // protobuf-es recognizes a Struct by its type name, so the variant of Struct needs another name.
  const typeName = desc.typeName === STRUCT ? `${STRUCT} as a message` : desc.typeName;
  const variant = { ...desc, typeName } as Writable<DescMessage>;
  known.set(desc, variant);
  variant.fields = desc.fields.map((field) => {
    const isOther = field.message && fieldsWithStructs(desc).includes(field);
    const message = isOther ? variantOf(field.message, known) : field.message;
    return { ...field, parent: variant, message } as DescField;
  });
  return variant;
}

function restore(desc: DescMessage, message: Message): void {
  for (const field of fieldsWithStructs(desc)) {
    const value = fieldValue(message, field);
    if (value === undefined) continue;
    const type = field.message as DescMessage;
    if (isMergedStruct(field)) {
      // Setting the field converts the message to a JSON object.
      reflect(desc, message, false).set(field, reflect(type, value as Message, false));
    } else if (field.fieldKind === "message") {
      restore(type, value as Message);
    } else {
      // The field is a list or a map.
      for (const one of Object.values(value as Fields)) restore(type, one as Message);
    }
  }
}

function fieldValue(message: Message, { localName, oneof }: DescField): unknown {
  const fields = message as unknown as Fields;
  if (!oneof) return fields[localName];
  const chosen = fields[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen.case === localName ? chosen.value : undefined;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };
