import { readFileSync } from "node:fs";
import { ROOT } from "@user-group-service/testing/process";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { isIntactToken } from "../../../src/domain/token.ts";

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly string[];
  readonly properties?: { readonly [name: string]: Schema };
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly propertyNames?: Schema;
  /** If a schema has a reference and other keywords, this list contains the reference. */
  readonly allOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly "x-json"?: Schema;
  readonly "x-exact-numbers"?: boolean;
  readonly "x-in-future"?: boolean;
  readonly "x-exactly-one-of"?: readonly string[];
  readonly "x-at-most-one-of"?: readonly string[];
}

interface Response {
  readonly content?: Content;
  readonly "x-reasons"?: readonly string[];
}

interface Content {
  readonly [contentType: string]: { readonly schema: Schema };
}

export interface Operation {
  readonly operationId: string;
  readonly "x-access": string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: { readonly [status: string]: Response & { readonly $ref?: string } };
}

export const DOCUMENT = JSON.parse(readFileSync(`${ROOT}/gen/openapi.json`, "utf8")) as {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly webhooks: { readonly [type: string]: { readonly post: Operation } };
  readonly components: {
    readonly schemas: { readonly [name: string]: Schema };
    readonly responses: { readonly [name: string]: Response };
  };
};

const ajv = new Ajv2020({ strict: false });
ajv.addKeyword({
  keyword: "x-visible",
  type: "string",
  validate: (_: true, text: string) => !/^\s|\s$|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u2800]/u.test(text),
});
ajv.addKeyword({ keyword: "x-no-token", type: "string", validate: (_: true, text: string) => !isIntactToken(text) });
ajv.addKeyword({
  keyword: "x-max-bytes",
  validate: (max: number, value: unknown) => Buffer.byteLength(JSON.stringify(value)) <= max,
});
ajv.addKeyword({ keyword: "x-max-depth", validate: (max: number, value: unknown) => depthOf(value) <= max });
ajv.addKeyword({ keyword: "x-exact-numbers", validate: (_: true, value: unknown) => hasExactNumbers(value) });
ajv.addKeyword({
  keyword: "x-min-seconds",
  type: "string",
  validate: (min: number, text: string) => Number.parseFloat(text) >= min,
});
ajv.addKeyword({
  keyword: "x-max-seconds",
  type: "string",
  validate: (max: number, text: string) => Number.parseFloat(text) <= max,
});
ajv.addKeyword({
  keyword: "x-in-future",
  type: "string",
  validate: (_: true, text: string) => Date.parse(text) > Date.now(),
});
const given = (names: readonly string[], value: { readonly [name: string]: unknown }) =>
  names.filter((name) => value[name] !== undefined && value[name] !== "").length;
ajv.addKeyword({
  keyword: "x-exactly-one-of",
  type: "object",
  validate: (names: readonly string[], value: { readonly [name: string]: unknown }) => given(names, value) === 1,
});
ajv.addKeyword({
  keyword: "x-at-most-one-of",
  type: "object",
  validate: (names: readonly string[], value: { readonly [name: string]: unknown }) => given(names, value) <= 1,
});
// Accepts the same texts for a Timestamp as protobuf: times of RFC 3339 with upper-case letters, at most nine decimals,
// and a year from 1 to 9999.
ajv.addFormat("date-time", (text: string) => {
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/.test(text)) return false;
  const [, day] = /^\d{4}-\d{2}-(\d{2})T(?!24)/.exec(text) ?? [];
  const ms = Date.parse(text.replace(/\.\d+/, ""));
  const isOfMonth = new Date(Date.parse(`${text.slice(0, 10)}T00:00:00Z`)).getUTCDate() === Number(day);
  return isOfMonth && ms >= Date.parse("0001-01-01T00:00:00Z") && ms <= Date.parse("9999-12-31T23:59:59Z");
});
ajv.addFormat("int32", true);
ajv.addFormat("int64", true);
ajv.addSchema(DOCUMENT, "openapi.json", undefined, false);

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function hasExactNumbers(value: unknown): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== "object" || value === null || Object.values(value).every(hasExactNumbers);
}

const compiled = new Map<unknown, ValidateFunction>();

/** Returns the reason why a value does not match a schema of the document. Undefined if the value matches. */
export function faultOf(schema: Schema, value: unknown): string | undefined {
  const known = compiled.get(schema) ?? ajv.compile(absolute(schema) as object);
  compiled.set(schema, known);
  return known(value) ? undefined : ajv.errorsText(known.errors);
}

/** Returns a schema with absolute references, so that ajv can compile it separately. */
function absolute(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('"$ref":"#/', '"$ref":"openapi.json#/'));
}

/**
 * Returns a schema without its reference. If the schema has a reference, the result has the keywords of the target, and
 * the other keywords of the schema.
 */
export function resolved({ $ref, allOf: [whole] = [], ...others }: Schema): Schema {
  if (whole) return { ...resolved(whole), ...others };
  if ($ref === undefined) return others;
  const name = $ref.slice("#/components/schemas/".length);
  const target = DOCUMENT.components.schemas[name];
  if (!target) throw new Error(`the document has no ${$ref}`);
  return { ...resolved(target), ...others };
}

/**
 * Returns the schema of a response, and the reasons that its error can have.
 *
 * @throws if the document does not contain the status
 */
export function answerOf({ operationId, responses }: Operation, status: number) {
  const given = responses[String(status)] ?? responses["default"];
  const name = given?.$ref?.slice("#/components/responses/".length);
  const response = name === undefined ? given : DOCUMENT.components.responses[name];
  const schema = response?.content?.["application/json"]?.schema;
  if (!schema) throw new Error(`${operationId} does not document status ${status}`);
  return { schema, reasons: response?.["x-reasons"] ?? [] };
}

/**
 * Converts a request to the form that the document describes. The service accepts some forms of proto3 JSON that the
 * document does not contain. These are `null` for an absent field, integers as strings, numbers instead of the names of
 * enum values, and unknown fields.
 */
export function canonical(schema: Schema, value: unknown): unknown {
  const { type, properties, items, enum: names } = resolved(schema);
  if (type === "integer" && typeof value === "string") {
    const isNumber = value !== "" && value.trim() === value && Number.isFinite(Number(value));
    return isNumber ? Number(value) : value;
  }
  if (names && typeof value === "number") return enumOf(names)[value] ?? value;
  if (items && Array.isArray(value)) return value.map((each) => canonical(items, each));
  if (!properties || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const fields = Object.entries(value).flatMap(([name, each]): [string, unknown][] => {
    const field = properties[name];
    if (!field) return [];
    if (each === null && !field.anyOf) return [];
    return [[name, canonical(field, each)]];
  });
  return Object.fromEntries(fields);
}

/** Returns all names of the enum that contains the given names. The position of a name is its number in the enum. */
function enumOf(names: readonly string[]): readonly string[] {
  const all = Object.values(DOCUMENT.components.schemas).find((each) =>
    names.every((name) => each.enum?.includes(name)),
  );
  return all?.enum ?? names;
}
