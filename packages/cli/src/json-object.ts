import type { JsonObject } from "@bufbuild/protobuf";
import { usageFailure } from "./failures.ts";

/** What a JSON object is called where it is none, and how one is written. */
interface Wanted {
  readonly source: string;
  readonly example: string;
}

/** Parses a JSON object that somebody wrote. @throws Failure, which shows nothing of it, when it is none */
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
