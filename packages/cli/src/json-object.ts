import type { JsonObject } from "@bufbuild/protobuf";
import { usageFailure } from "./failures.ts";

/** How the message names the object, and an example of one. */
interface Wanted {
  readonly source: string;
  readonly example: string;
}

/** Parses a JSON object that the user wrote. @throws Failure, without any of the text, when it is not an object */
export function parseJsonObject(text: string, { source, example }: Wanted): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw usageFailure(`${source} is not a JSON object`, `write it as ${example}`);
  return value as JsonObject;
}
