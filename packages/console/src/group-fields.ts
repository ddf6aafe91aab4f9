import type { JsonObject } from "@bufbuild/protobuf";
import { NotRight } from "./session/failures.ts";

/** What of a user group can be changed. */
export interface GroupFields {
  readonly name: string;
  readonly mapping: { readonly [schema: string]: string };
  readonly properties?: JsonObject | undefined;
}

/** The fields of a user group as a person writes them. */
export type GroupTexts = { readonly [field in keyof GroupFields]-?: string };

/** Writes the fields of a user group for a person: a mapping as `SCHEMA=SOURCE` on a line each, properties as JSON. */
export function textsOf({ name, mapping, properties }: GroupFields): GroupTexts {
  return {
    name,
    mapping: Object.entries(mapping)
      .map(([schema, source]) => `${schema}=${source}`)
      .join("\n"),
    properties: properties ? JSON.stringify(properties, null, 2) : "",
  };
}

/** Reads a mapping. @throws NotRight that names the line at fault */
export function parseMapping(text: string): { [schema: string]: string } {
  const mapping = new Map<string, string>();
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const end = line.indexOf("=");
    if (end < 1) throw new NotRight(`Line ${i + 1} of the mapping is not of the form SCHEMA=SOURCE.`);
    const schema = line.slice(0, end).trim();
    if (mapping.has(schema)) throw new NotRight(`Line ${i + 1} of the mapping names ${schema} once more.`);
    mapping.set(schema, line.slice(end + 1).trim());
  }
  return Object.fromEntries(mapping);
}

/** Reads properties; undefined: there are none. @throws NotRight that says where it is no JSON object */
export function parseProperties(text: string): JsonObject | undefined {
  if (text.trim() === "") return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new NotRight(`The properties are not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new NotRight('The properties are JSON, but no object, such as {"plan":"gold"}.');
  return value as JsonObject;
}
