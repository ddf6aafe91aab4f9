import type { DescField, DescMessage } from "@bufbuild/protobuf";

/** What protobuf's JSON has for a Duration; protobuf-es looks at the beginning alone. */
const DURATION = /^-?[0-9]+(?:\.[0-9]{1,9})?s$/;

const DURATION_TYPE = "google.protobuf.Duration";

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
  if (!messageCheck(desc)(json)) throw new Error("cannot decode message google.protobuf.Duration from JSON");
}

/** Whether messages of a type may hold what `requireStrictJson` refuses. */
export function hasLenientJson(desc: DescMessage, seen: Set<DescMessage> = new Set()): boolean {
  if (desc.typeName === DURATION_TYPE) return true;
  if (isWellKnown(desc) || seen.has(desc)) return false;
  seen.add(desc);
  return desc.fields.some(({ message }) => message && hasLenientJson(message, seen));
}

function strictness(desc: DescMessage): IsStrict {
  const known = made.get(desc);
  if (known) return known;
  if (!hasLenientJson(desc)) return ANYTHING;
  // A type that holds itself is asked for while it is made.
  let isStrict = ANYTHING;
  made.set(desc, (json) => isStrict(json));
  const fields = desc.fields.flatMap((field) => {
    const check = fieldCheck(field);
    return check === ANYTHING ? [] : [{ names: [field.jsonName, field.name], check }];
  });
  isStrict = (json) =>
    !isObject(json) ||
    fields.every(({ names, check }) => names.every((name) => !Object.hasOwn(json, name) || check(json[name])));
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
  if (message.typeName === DURATION_TYPE) return (json) => typeof json !== "string" || DURATION.test(json);
  return isWellKnown(message) ? ANYTHING : strictness(message);
}

/** Whether its JSON is of a form of its own. */
function isWellKnown({ typeName }: DescMessage): boolean {
  return typeName.startsWith("google.protobuf.");
}

function isObject(json: unknown): json is { readonly [name: string]: unknown } {
  return typeof json === "object" && json !== null;
}
