import { type DescField, fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { type ImportedUserGroup, ImportedUserGroupSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import type { UserGroup } from "../../../../gen/usergroup/v1/user_group_pb.ts";
import { isJsonField, isTimeField, valueIn } from "../../../operator/src/fields.ts";

const FIELDS = ImportedUserGroupSchema.fields;
const FIELDS_WITHOUT_TOKEN = FIELDS.filter(({ name }) => name !== "token");
/** Whether a file has the protobuf JSON of a field: a time, or a message of this service. */
const isConverted = (field: DescField) => field.fieldKind === "message" && !isJsonField(field);
const JSON_COLUMNS: ReadonlySet<string> = new Set(
  FIELDS.filter((field) => isJsonField(field) || (isConverted(field) && !isTimeField(field))).map(({ name }) => name),
);

/** The columns of a group in a file: the fields of the message that imports it, in their order. */
export const COLUMNS: readonly string[] = FIELDS.map(({ name }) => name);

/** The values of a group in a file, by column. Null is an unset field. */
export type Row = { readonly [column: string]: unknown };

/** The error for a row that is not a group. The message says why. */
export class BadRow extends Error {}

/** The column with a name in snake case or camel case; undefined for an unknown name. */
export function columnOf(name: string): string | undefined {
  return FIELDS.find((field) => field.name === name || field.jsonName === name)?.name;
}

/** Whether a column holds JSON. */
export function isJsonColumn(column: string): boolean {
  return JSON_COLUMNS.has(column);
}

/** Reads the group of a row. @throws BadRow */
export function groupOf(row: Row): ImportedUserGroup {
  requireSendable(row, -1);
  if ((row["provided_id"] ?? undefined) === undefined) throw new BadRow("provided_id: is missing");
  const group = parsed(row);
  if (group) return group;
  // The message of protobuf-es may quote the value, perhaps a token.
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

/** How many levels properties may have. */
const MAX_DEPTH = 32;

/** Refuses values that the service would not receive unchanged. @param depth the level of the value; -1 for a row @throws BadRow */
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

/** The row of an exported group: its columns in order, maps sorted by key. @param hasToken whether it has the token */
export function rowOf(group: UserGroup, hasToken: boolean): JsonObject {
  const fields = hasToken ? FIELDS : FIELDS_WITHOUT_TOKEN;
  return Object.fromEntries(fields.map((field) => [field.name, exported(field, valueIn(group, field))])) as JsonObject;
}

function exported(field: DescField, value: unknown): unknown {
  // JSON omits an undefined field.
  if (field.message && isConverted(field)) return value && toJson(field.message, value as never);
  if (field.fieldKind !== "map") return value ?? null;
  return Object.fromEntries(Object.entries(value as object).sort(([a], [b]) => (a < b ? -1 : 1)));
}
