import type { JsonRules } from "../../gen/usergroup/v1/json_rules_pb.ts";
import type { Json, JsonObject } from "../domain/user-group.ts";

/** Why a JSON value is invalid. The id is stable; the message says what to do. */
export interface JsonFault {
  readonly id: "json.max_depth" | "json.max_bytes" | "json.number" | "json.text";
  readonly message: string;
}

/** Checks a JSON object against its rules, and whether it can be stored exactly. Returns the first fault. */
export function jsonFault(value: JsonObject, rules: JsonRules): JsonFault | undefined {
  const fault = walk(value, rules.maxDepth, rules.maxDepth);
  if (fault) return fault;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes <= rules.maxBytes) return undefined;
  return { id: "json.max_bytes", message: `must be at most ${rules.maxBytes} bytes of JSON, but has ${bytes}` };
}

/** Checks whether a text can be encoded as UTF-8. A lone half of a surrogate pair cannot. */
export function textFault(text: string): JsonFault | undefined {
  if (text.isWellFormed()) return undefined;
  return { id: "json.text", message: "must be well-formed Unicode, but holds half of a surrogate pair" };
}

function walk(value: Json, levelsLeft: number, maxDepth: number): JsonFault | undefined {
  switch (typeof value) {
    case "string":
      return textFault(value);
    case "number":
      return numberFault(value);
    case "object": {
      if (value === null) return undefined;
      if (levelsLeft === 0) return { id: "json.max_depth", message: `must be at most ${maxDepth} levels deep` };
      if (Array.isArray(value)) return firstFault(value, (element) => walk(element, levelsLeft - 1, maxDepth));
      return firstFault(
        Object.keys(value),
        (key) => textFault(key) ?? walk(value[key] as Json, levelsLeft - 1, maxDepth),
      );
    }
    default:
      return undefined;
  }
}

function numberFault(value: number): JsonFault | undefined {
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return undefined;
  return {
    id: "json.number",
    message: `must hold numbers from -${Number.MAX_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER} only, because larger ones are not stored exactly; send those as strings`,
  };
}

/** The first fault that a check finds. */
export function firstFault<T>(items: readonly T[], check: (item: T) => JsonFault | undefined): JsonFault | undefined {
  for (const item of items) {
    const fault = check(item);
    if (fault) return fault;
  }
  return undefined;
}
