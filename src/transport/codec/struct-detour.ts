import type { DescField, DescMessage, DescOneof, Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";

/** Another form of a message type, which is decoded instead, and the way back to the type's own. */
export interface StructDetour {
  readonly desc: DescMessage;
  /** Turns a message of `desc` into one of the type itself, in place. */
  readonly restore: (message: Message) => void;
}

type Fields = { readonly [localName: string]: unknown };
type Restore = (message: Message) => void;

const STRUCT = "google.protobuf.Struct";

/**
 * A message type in which the fields of type google.protobuf.Struct hold
 * messages. In the type itself they hold JSON objects, which protobuf-es turns
 * into messages and back whenever such a field occurs again: a request of 52 KB
 * that repeats one took it half a minute. By this detour each becomes a JSON
 * object once, when all of the request has been read; everything else is
 * protobuf-es' own work. Undefined for types that have no such field.
 */
export function structDetour(desc: DescMessage): StructDetour | undefined {
  if (!holdsStruct(desc)) return undefined;
  return { desc: new Forms().of(desc), restore: new Restorers().of(desc) };
}

/** Whether a field holds a JSON object that is merged with when the field occurs again. */
function isMergedStruct(field: DescField): boolean {
  return (
    field.fieldKind === "message" &&
    field.message.typeName === STRUCT &&
    field.parent.typeName !== "google.protobuf.Value"
  );
}

function holdsStruct(desc: DescMessage, seen: Set<DescMessage> = new Set()): boolean {
  if (seen.has(desc)) return false;
  seen.add(desc);
  return desc.fields.some((field) => isMergedStruct(field) || (field.message && holdsStruct(field.message, seen)));
}

/** The other form of each type. */
class Forms {
  readonly #known = new Map<DescMessage, DescMessage>();

  of(desc: DescMessage): DescMessage {
    const known = this.#known.get(desc);
    if (known) return known;
    // By another name protobuf-es does not know it for what is a JSON object.
    const typeName = desc.typeName === STRUCT ? `${STRUCT} as a message` : desc.typeName;
    const form = { ...desc, typeName, toString: () => desc.toString() } as Writable<DescMessage>;
    this.#known.set(desc, form);
    const members = new Map<DescField | DescOneof, DescField | DescOneof>();
    for (const oneof of desc.oneofs) members.set(oneof, { ...oneof, parent: form } as DescOneof);
    for (const field of desc.fields) members.set(field, this.#field(field, form, members));
    const moved = (member: DescField | DescOneof) => members.get(member) ?? member;
    form.fields = desc.fields.map(moved) as DescField[];
    form.oneofs = desc.oneofs.map(moved) as DescOneof[];
    form.members = desc.members.map(moved);
    form.field = Object.fromEntries(form.fields.map((field) => [field.localName, field]));
    for (const oneof of form.oneofs) (oneof as Writable<DescOneof>).fields = oneof.fields.map(moved) as DescField[];
    return form;
  }

  #field(field: DescField, parent: DescMessage, members: ReadonlyMap<DescField | DescOneof, unknown>): DescField {
    const { message } = field;
    const isOther = message && (isMergedStruct(field) || holdsStruct(message));
    return {
      ...field,
      parent,
      oneof: field.oneof && members.get(field.oneof),
      message: isOther ? this.of(message) : message,
    } as DescField;
  }
}

/** What turns messages back, by their type. */
class Restorers {
  readonly #known = new Map<DescMessage, Restore>();

  of(desc: DescMessage): Restore {
    const known = this.#known.get(desc);
    if (known) return known;
    const restorers: Restore[] = [];
    const restore: Restore = (message) => {
      for (const restoreField of restorers) restoreField(message);
    };
    this.#known.set(desc, restore);
    for (const field of desc.fields) {
      const restoreField = this.#field(desc, field);
      if (restoreField) restorers.push(restoreField);
    }
    return restore;
  }

  #field(desc: DescMessage, field: DescField): Restore | undefined {
    const { message: type } = field;
    if (type === undefined) return undefined;
    if (isMergedStruct(field)) {
      return (message) => {
        const struct = fieldValue(message, field);
        if (struct === undefined) return;
        // Setting it is what makes a JSON object of it.
        reflect(desc, message, false).set(field, reflect(type, struct as Message, false));
      };
    }
    if (!holdsStruct(type)) return undefined;
    const restore = this.of(type);
    if (field.fieldKind === "message") {
      return (message) => {
        const value = fieldValue(message, field);
        if (value !== undefined) restore(value as Message);
      };
    }
    // Of lists and maps alike.
    return (message) => {
      for (const value of Object.values(fieldValue(message, field) as Fields)) restore(value as Message);
    };
  }
}

function fieldValue(message: Message, { localName, oneof }: DescField): unknown {
  const fields = message as unknown as Fields;
  if (!oneof) return fields[localName];
  const chosen = fields[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen.case === localName ? chosen.value : undefined;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };
