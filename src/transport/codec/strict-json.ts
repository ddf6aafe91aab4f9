import type { DescField, DescMessage } from "@bufbuild/protobuf";

/** What protobuf's JSON has for a Duration; protobuf-es looks at the beginning alone. */
const DURATION = /^-?[0-9]+(?:\.[0-9]{1,9})?s$/;

type IsStrict = (json: unknown) => boolean;

const ANYTHING: IsStrict = () => true;

const made = new Map<DescMessage, IsStrict>();

/**
 * Refuses what protobuf-es takes for the JSON of a message although it is none: a duration such as `300s of grace`.
 * Whatever else is wrong with it is left to protobuf-es.
 *
 * @throws Error with protobuf-es' text
 */
export function requireStrictJson(desc: DescMessage, json: unknown): void {
  if (!strictness(desc)(json)) throw new Error("cannot decode message google.protobuf.Duration from JSON");
}

/** Whether messages of a type may hold what `requireStrictJson` refuses. */
export function hasLenientJson(desc: DescMessage): boolean {
  return strictness(desc) !== ANYTHING;
}

function strictness(desc: DescMessage): IsStrict {
  const known = made.get(desc);
  if (known) return known;
  // A type that holds itself is asked for while it is made.
  let isStrict = ANYTHING;
  made.set(desc, (json) => isStrict(json));
  const fields = desc.fields.flatMap((field) => {
    const check = fieldCheck(field);
    return check === ANYTHING ? [] : [{ names: [field.jsonName, field.name], check }];
  });
  if (fields.length > 0) {
    isStrict = (json) =>
      !isObject(json) ||
      fields.every(({ names, check }) => names.every((name) => !Object.hasOwn(json, name) || check(json[name])));
  }
  made.set(desc, isStrict);
  return isStrict;
}

function fieldCheck({ message, fieldKind }: DescField): IsStrict {
  if (!message) return ANYTHING;
  const check = messageCheck(message);
  if (check === ANYTHING || fieldKind === "message") return check;
  // Of a list, or of a map.
  return (json) => !isObject(json) || Object.values(json).every(check);
}

function messageCheck(message: DescMessage): IsStrict {
  if (message.typeName === "google.protobuf.Duration") return (json) => typeof json !== "string" || DURATION.test(json);
  return message.typeName.startsWith("google.protobuf.") ? ANYTHING : strictness(message);
}

function isObject(json: unknown): json is { readonly [name: string]: unknown } {
  return typeof json === "object" && json !== null;
}
