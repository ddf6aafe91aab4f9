import type { JsonObject } from "@bufbuild/protobuf";
import { jsonLine } from "./printable.ts";

/** The mapping of a group as people read it; undefined when it is empty. */
export function mappingText(mapping: { readonly [schema: string]: string }): string | undefined {
  const entries = Object.entries(mapping);
  return entries.length === 0 ? undefined : entries.map(([schema, source]) => `${schema}=${source}`).join(", ");
}

/** The properties of a group as people read them; undefined when it has none. */
export function propertiesText(properties: JsonObject | undefined): string | undefined {
  return properties && jsonLine(properties);
}
