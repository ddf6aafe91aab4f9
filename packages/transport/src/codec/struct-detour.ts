import type { DescField, DescMessage, DescOneof, Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { type Fields, holdsJsonObject, mayHold } from "./fields.ts";

/** A variant of a message type to decode in place of it, and the conversion back. */
export interface StructDetour {
  readonly desc: DescMessage;
  /** Converts a message of `desc` to the type itself, in place. */
  readonly restore: (message: Message) => void;
}

type Restore = (message: Message) => void;

const STRUCT = "google.protobuf.Struct";

/**
 * Makes a variant of a message type whose fields of type google.protobuf.Struct hold messages. In the type itself they
 * hold JSON objects. protobuf-es converts such an object to a message and back whenever its field occurs again: a
 * request of 52 KB that repeats one field takes half a minute. Decoding the variant and restoring the message converts
 * each field once. Returns undefined for types without such a field.
 */
export function structDetour(desc: DescMessage): StructDetour | undefined {
  if (!holdsStruct(desc)) return undefined;
  return { desc: variantOf(desc, new Map()), restore: restorer(desc, new Map()) };
}

/** Whether a field holds a JSON object into which protobuf-es merges further occurrences of the field. */
function isMergedStruct(field: DescField): boolean {
  return field.fieldKind === "message" && holdsJsonObject(field);
}

function holdsStruct(desc: DescMessage): boolean {
  return mayHold(desc, isMergedStruct);
}

/** Makes the variant of a type. @param known the variants that are made already */
function variantOf(desc: DescMessage, known: Map<DescMessage, DescMessage>): DescMessage {
  const made = known.get(desc);
  if (made) return made;
  // protobuf-es recognizes JSON objects by the name of the type.
  const typeName = desc.typeName === STRUCT ? `${STRUCT} as a message` : desc.typeName;
  const variant = { ...desc, typeName, toString: () => desc.toString() } as Writable<DescMessage>;
  known.set(desc, variant);
  const members = new Map<DescField | DescOneof, DescField | DescOneof>();
  for (const oneof of desc.oneofs) members.set(oneof, { ...oneof, parent: variant } as DescOneof);
  for (const field of desc.fields) {
    const isOther = field.message && (isMergedStruct(field) || holdsStruct(field.message));
    const message = isOther ? variantOf(field.message, known) : field.message;
    const oneof = field.oneof && members.get(field.oneof);
    members.set(field, { ...field, parent: variant, oneof, message } as DescField);
  }
  const moved = (member: DescField | DescOneof) => members.get(member) ?? member;
  variant.fields = desc.fields.map(moved) as DescField[];
  variant.oneofs = desc.oneofs.map(moved) as DescOneof[];
  variant.members = desc.members.map(moved);
  variant.field = Object.fromEntries(variant.fields.map((field) => [field.localName, field]));
  for (const oneof of variant.oneofs) (oneof as Writable<DescOneof>).fields = oneof.fields.map(moved) as DescField[];
  return variant;
}

/** Makes the function that restores messages of a type. @param known the functions that are made already */
function restorer(desc: DescMessage, known: Map<DescMessage, Restore>): Restore {
  const made = known.get(desc);
  if (made) return made;
  const restorers: Restore[] = [];
  const restore: Restore = (message) => {
    for (const restoreField of restorers) restoreField(message);
  };
  known.set(desc, restore);
  for (const field of desc.fields) {
    const restoreField = fieldRestorer(field, known);
    if (restoreField) restorers.push(restoreField);
  }
  return restore;
}

function fieldRestorer(field: DescField, known: Map<DescMessage, Restore>): Restore | undefined {
  const { message: type, parent } = field;
  if (type === undefined) return undefined;
  if (isMergedStruct(field)) {
    return (message) => {
      const struct = fieldValue(message, field);
      if (struct === undefined) return;
      // Setting the field converts the message to a JSON object.
      reflect(parent, message, false).set(field, reflect(type, struct as Message, false));
    };
  }
  if (!holdsStruct(type)) return undefined;
  const restore = restorer(type, known);
  if (field.fieldKind === "message") {
    return (message) => {
      const value = fieldValue(message, field);
      if (value !== undefined) restore(value as Message);
    };
  }
  // The field is a list or a map.
  return (message) => {
    for (const value of Object.values(fieldValue(message, field) as Fields)) restore(value as Message);
  };
}

function fieldValue(message: Message, { localName, oneof }: DescField): unknown {
  const fields = message as unknown as Fields;
  if (!oneof) return fields[localName];
  const chosen = fields[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen.case === localName ? chosen.value : undefined;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };
