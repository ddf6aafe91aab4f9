import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { type ImportedUserGroup, ImportedUserGroupSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";

/** The fields of a group in a file, in their order there. */
export const COLUMNS = ["provided_id", "name", "mapping", "properties", "token"] as const;

/** The name of a field of a group in a file. */
export type ColumnName = (typeof COLUMNS)[number];

/** A row of a file is not a group; the message says why. */
export class BadRow extends Error {}

/** The field that a column names; undefined for an unknown one. */
export function columnOf(name: string): ColumnName | undefined {
  if (name === "providedId") return "provided_id";
  return COLUMNS.find((column) => column === name);
}

/** The group of a row: JSON values, in which null stands for a field that is not set. @throws BadRow */
export function groupOf(fields: { readonly [name in ColumnName]?: unknown }): ImportedUserGroup {
  const name = optional("name", fields.name, isString, "a string");
  const token = optional("token", fields.token, isString, "a string");
  const properties = optional("properties", fields.properties, isObject, "an object");
  const mapping = optional("mapping", fields.mapping, isObject, "an object") ?? {};
  for (const [key, value] of Object.entries(mapping)) {
    if (typeof value !== "string") throw new BadRow(`mapping: the value of ${JSON.stringify(key)} must be a string`);
  }
  for (const value of [fields.provided_id, name, token, mapping, properties]) requireSendable(value, 0);
  const providedId = optional("provided_id", fields.provided_id, isString, "a string");
  if (providedId === undefined) throw new BadRow("provided_id: is missing");
  return create(ImportedUserGroupSchema, {
    providedId,
    ...(name !== undefined && { name }),
    mapping: mapping as { [key: string]: string },
    ...(properties !== undefined && { properties: properties as JsonObject }),
    ...(token !== undefined && { token }),
  });
}

/** How many levels properties may have. */
const MAX_DEPTH = 32;

/** Refuses values that would not arrive unchanged. @throws BadRow */
function requireSendable(value: unknown, depth: number): void {
  if (typeof value === "string" && !value.isWellFormed())
    throw new BadRow("has half of a surrogate pair, which is no text");
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) throw new BadRow(`properties: must not be nested deeper than ${MAX_DEPTH} levels`);
  if (Object.hasOwn(value, "__proto__")) throw new BadRow("has a key __proto__, which cannot be sent");
  for (const [key, child] of Object.entries(value)) {
    if (!key.isWellFormed()) requireSendable(key, depth);
    requireSendable(child, depth + 1);
  }
}

/** A group as it stands in a file of JSON Lines: its fields in their order, the mapping by its keys. */
export function jsonOf(group: ExportedGroup): JsonObject {
  return {
    provided_id: group.providedId,
    name: group.name,
    mapping: sortedMapping(group.mapping),
    properties: group.properties ?? null,
    ...(group.token !== undefined && { token: group.token }),
  };
}

/** The fields of a group that are in a file. */
export interface ExportedGroup {
  readonly providedId: string;
  readonly name: string;
  readonly mapping: { readonly [key: string]: string };
  readonly properties?: JsonObject | undefined;
  /** Undefined: tokens are not exported. */
  readonly token?: string | undefined;
}

/** A mapping sorted by its keys. */
export function sortedMapping(mapping: ExportedGroup["mapping"]): { [key: string]: string } {
  return Object.fromEntries(Object.entries(mapping).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function optional<T>(name: string, value: unknown, is: (value: unknown) => value is T, what: string): T | undefined {
  if (value === undefined || value === null) return undefined;
  if (!is(value)) throw new BadRow(`${name}: must be ${what}`);
  return value;
}

const isString = (value: unknown): value is string => typeof value === "string";

/** Whether a JSON value is an object. */
export function isObject(value: unknown): value is { [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
