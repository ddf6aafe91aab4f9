import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { type Fields, isWellKnown } from "./fields.ts";

/** The JSON format of a Duration. protobuf-es only checks the beginning. */
const DURATION = /^-?[0-9]+(?:\.[0-9]{1,9})?s$/;

const DURATION_TYPE = "google.protobuf.Duration";

type IsStrict = (json: unknown) => boolean;

const ANYTHING: IsStrict = () => true;

const made = new Map<DescMessage, IsStrict>();

/**
 * Refuses JSON that protobuf-es accepts although it is invalid: a duration such as `300s of grace`. It leaves all other
 * errors to protobuf-es.
 *
 * @throws Error with the text of protobuf-es
 */
export function requireStrictJson(desc: DescMessage, json: unknown): void {
  if (!messageCheck(desc)(json)) throw new Error("cannot decode message google.protobuf.Duration from JSON");
}

/** Whether messages of a type may contain JSON that `requireStrictJson` refuses. */
export function hasLenientJson(desc: DescMessage, seen: Set<DescMessage> = new Set()): boolean {
  if (desc.typeName === DURATION_TYPE) return true;
  if (isWellKnown(desc) || seen.has(desc)) return false;
  seen.add(desc);
  return desc.fields.some(({ message }) => message && hasLenientJson(message, seen));
}

function strictness(desc: DescMessage): IsStrict {
  const known = made.get(desc);
  if (known) return known;
  if (!hasLenientJson(desc)) {
    made.set(desc, ANYTHING);
    return ANYTHING;
  }
  // A recursive type looks up its own check while the check is being made.
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
  // The field is a list or a map.
  return (json) => !isObject(json) || Object.values(json).every(check);
}

function messageCheck(message: DescMessage): IsStrict {
  if (message.typeName === DURATION_TYPE) return (json) => typeof json !== "string" || DURATION.test(json);
  return isWellKnown(message) ? ANYTHING : strictness(message);
}

function isObject(json: unknown): json is Fields {
  return typeof json === "object" && json !== null;
}
