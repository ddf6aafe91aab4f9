import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { type Fields, fieldsLeadingTo } from "./fields.ts";

/** The JSON format of a Duration. protobuf-es only checks the beginning. */
const DURATION = /^-?[0-9]+(?:\.[0-9]{1,9})?s$/;

const DURATION_TYPE = "google.protobuf.Duration";

const fieldsWithDurations = fieldsLeadingTo(({ message }) => message?.typeName === DURATION_TYPE);

/**
 * Refuses JSON that protobuf-es accepts although it is invalid: a duration such as `300s of grace`. It leaves all other
 * errors to protobuf-es.
 *
 * @throws Error with the text of protobuf-es
 */
export function requireStrictJson(desc: DescMessage, json: unknown): void {
  if (!isStrict(desc, json)) throw new Error("cannot decode message google.protobuf.Duration from JSON");
}

/** Whether messages of a type may contain JSON that `requireStrictJson` refuses. */
export function hasLenientJson(desc: DescMessage): boolean {
  return desc.typeName === DURATION_TYPE || fieldsWithDurations(desc).length > 0;
}

function isStrict(desc: DescMessage, json: unknown): boolean {
  if (desc.typeName === DURATION_TYPE) return typeof json !== "string" || DURATION.test(json);
  if (!isObject(json)) return true;
  return fieldsWithDurations(desc).every((field) => {
    // Most fields have one name. To look at their values twice would be exponential in their depth.
    const names = new Set([field.jsonName, field.name]);
    return [...names].every((name) => !Object.hasOwn(json, name) || isStrictField(field, json[name]));
  });
}

function isStrictField({ message, fieldKind }: DescField, json: unknown): boolean {
  if (!message) return true;
  if (fieldKind === "message") return isStrict(message, json);
  // The field is a list or a map.
  return !isObject(json) || Object.values(json).every((element) => isStrict(message, element));
}

function isObject(json: unknown): json is Fields {
  return typeof json === "object" && json !== null;
}
