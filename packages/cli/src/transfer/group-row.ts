import { type DescField, fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { type ImportedUserGroup, ImportedUserGroupSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import type { UserGroup } from "../../../../gen/usergroup/v1/user_group_pb.ts";
import { isJsonField, isTimeField, valueIn } from "../../../operator/src/fields.ts";

const FIELDS = ImportedUserGroupSchema.fields;
const FIELDS_WITHOUT_TOKEN = FIELDS.filter(({ name }) => name !== "token");
/** Returns whether files contain a field in its protobuf JSON form. This is true for times and messages of this API. */
const isConverted = (field: DescField) => field.fieldKind === "message" && !isJsonField(field);
/** The columns whose cells in CSV are JSON. */
export const JSON_COLUMNS: ReadonlySet<string> = new Set(
  FIELDS.filter((field) => isJsonField(field) || (isConverted(field) && !isTimeField(field))).map(({ name }) => name),
);

/** The columns of a file of groups, in the order of the fields of `ImportedUserGroup`. */
export const COLUMNS: readonly string[] = FIELDS.map(({ name }) => name);

/** The values of a group in a file, by column. A value is null if the field is not set. */
export type Row = { readonly [column: string]: unknown };

/** The error for a row that is not a valid group. The message is the reason. */
export class BadRow extends Error {}

/** Returns the column with a name in snake case or camel case. Returns undefined if no column has the name. */
export function columnOf(name: string): string | undefined {
  return FIELDS.find((field) => field.name === name || field.jsonName === name)?.name;
}

/** Converts a row to a group. @throws BadRow if the row is not a valid group */
export function groupOf(row: Row): ImportedUserGroup {
  requireSendable(row, -1);
  if ((row["provided_id"] ?? undefined) === undefined) throw new BadRow("provided_id: is missing");
  const group = parsed(row);
  if (group) return group;
  // Do not show the error of protobuf-es, because it may quote the value, which may be a token.
  const bad = FIELDS.find(({ name }) => name in row && !parsed({ [name]: row[name] })) as DescField;
  throw new BadRow(`${bad.name}: must be ${formOf(bad)}`);
}

function parsed(row: Row): ImportedUserGroup | undefined {
  try {
    return fromJson(ImportedUserGroupSchema, row as JsonObject);
  } catch {
    return undefined;
  }
}

function formOf(field: DescField): string {
  if (isTimeField(field)) return "a time such as 2027-01-31T12:00:00Z";
  if (field.fieldKind === "map") return "an object whose values are strings";
  if (isJsonField(field)) return "an object";
  return JSON_COLUMNS.has(field.name) ? "an object as in an export" : "a string";
}

const MAX_DEPTH = 32;

/**
 * @param depth the level of nesting; -1 for a whole row
 * @throws BadRow if the value cannot be sent unchanged to the service
 */
function requireSendable(value: unknown, depth: number): void {
  if (typeof value === "string" && !value.isWellFormed()) throw new BadRow("has half of a surrogate pair");
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) throw new BadRow(`properties: must not be nested deeper than ${MAX_DEPTH} levels`);
  if (Object.hasOwn(value, "__proto__")) throw new BadRow("has a key __proto__, which cannot be sent");
  for (const [key, child] of Object.entries(value)) {
    if (!key.isWellFormed()) requireSendable(key, depth);
    requireSendable(child, depth + 1);
  }
}

/** Converts an exported group to a row. The columns have the order of `COLUMNS`. The keys of maps are sorted. */
export function rowOf(group: UserGroup, hasToken: boolean): JsonObject {
  const fields = hasToken ? FIELDS : FIELDS_WITHOUT_TOKEN;
  return Object.fromEntries(fields.map((field) => [field.name, exported(field, valueIn(group, field))])) as JsonObject;
}

function exported(field: DescField, value: unknown): unknown {
  // If the value is undefined, `JSON.stringify` drops the field.
  if (field.message && isConverted(field)) return value && toJson(field.message, value as never);
  if (field.fieldKind !== "map") return value ?? null;
  return Object.fromEntries(Object.entries(value as object).sort(([a], [b]) => (a < b ? -1 : 1)));
}
