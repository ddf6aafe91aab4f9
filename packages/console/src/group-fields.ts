import type { JsonObject } from "@bufbuild/protobuf";
import { NotRight } from "./session/failures.ts";

/** The fields of a user group that can be changed. */
interface GroupFields {
  readonly name: string;
  readonly mapping: { readonly [schema: string]: string };
  readonly properties?: JsonObject | undefined;
}

/** The fields of a user group as a person writes them. */
export type GroupTexts = { readonly [field in keyof GroupFields]-?: string };

/**
 * Writes the fields of a user group for a person: a mapping as `SCHEMA=SOURCE` on a line each, properties as JSON. A mapping
 * whose lines would be read as another one, such as of a schema with `=` in its name, is written as JSON, too.
 */
export function textsOf({ name, mapping, properties }: GroupFields): GroupTexts {
  const lines = linesOf(mapping).join("\n");
  return {
    name,
    mapping: isTextOf(lines, mapping) ? lines : JSON.stringify(mapping, null, 2),
    properties: properties ? JSON.stringify(properties, null, 2) : "",
  };
}

function linesOf(mapping: GroupFields["mapping"]): string[] {
  return Object.entries(mapping).map(([schema, source]) => `${schema}=${source}`);
}

function isTextOf(text: string, mapping: GroupFields["mapping"]): boolean {
  try {
    return JSON.stringify(parseMapping(text)) === JSON.stringify(mapping);
  } catch {
    return false;
  }
}

/**
 * The options of `ugs` for a mapping; a placeholder when the text is not a mapping yet, or one that options cannot
 * express.
 */
export function mappingOptions(text: string): readonly string[] {
  try {
    const mapping = parseMapping(text);
    if (Object.keys(mapping).every((schema) => !schema.includes("="))) return ["--mapping", ...linesOf(mapping)];
  } catch {
    // The text is being typed.
  }
  return ["--mapping", "SCHEMA=SOURCE"];
}

/** Reads a mapping. @throws NotRight that names the line at fault */
export function parseMapping(text: string): { [schema: string]: string } {
  if (/^\s*\{.*\}\s*$/s.test(text)) return parseJsonMapping(text);
  const mapping = new Map<string, string>();
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const end = line.indexOf("=");
    if (end < 1) throw new NotRight(`Line ${i + 1} of the mapping does not have the form SCHEMA=SOURCE.`);
    const schema = line.slice(0, end).trim();
    if (mapping.has(schema)) throw new NotRight(`Line ${i + 1} of the mapping repeats the schema ${schema}.`);
    mapping.set(schema, line.slice(end + 1).trim());
  }
  return Object.fromEntries(mapping);
}

function parseJsonMapping(text: string): { [schema: string]: string } {
  let value: object;
  try {
    value = JSON.parse(text) as object;
  } catch (error) {
    throw new NotRight(`The mapping is in braces, but is not valid JSON: ${(error as Error).message}`);
  }
  for (const [schema, source] of Object.entries(value))
    if (typeof source !== "string") throw new NotRight(`The source of ${schema} in the mapping is not a JSON string.`);
  return value as { [schema: string]: string };
}

/** Reads properties; undefined: there are none. @throws NotRight that says where it is no JSON object */
export function parseProperties(text: string): JsonObject | undefined {
  if (text.trim() === "") return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new NotRight(`The properties are not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new NotRight('The properties are not a JSON object, such as {"plan":"gold"}.');
  return value as JsonObject;
}
