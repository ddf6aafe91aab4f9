import {
  type DescEnum,
  type DescField,
  type DescMessage,
  getOption,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import type { GenEnum } from "@bufbuild/protobuf/codegenv2";
import { type Duration, durationMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { field as rulesOption } from "../../../gen/buf/validate/validate_pb.ts";
import { type EnvironmentName, EnvironmentNameSchema } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "./environment-name.ts";
import { durationText, timeText } from "./times.ts";

/*
 * This file creates the texts that `ugs` and the console show for messages of the API. Its functions read the fields
 * from the descriptors of the messages, so a new field needs no change here.
 */

/**
 * Labels of fields. A key is `Message.field`, or a field name that applies to all messages. If a field is missing here,
 * its label is its name, with spaces instead of underscores.
 */
const LABELS: { readonly [field: string]: string } = {
  "ApiToken.grace_expire_time": "old secret valid until",
  "ApiToken.id": "API token",
  "ApiToken.token_create_time": "secret since",
  "Environment.name": "environment",
  "SigningKey.expire_time": "published until",
  "SigningKey.id": "key",
  "Suspension.message": "message for the page",
  "Suspension.reason": "suspension reason",
  "Suspension.suspend_time": "suspended since",
  "Suspension.until": "suspended until",
  "ViewerSession.id": "session",
  "ViewerSession.create_time": "session since",
  "ViewerSession.expire_time": "session expires",
  "Webhook.id": "webhook",
  active_time: "signs from",
  api_token_count: "API tokens",
  api_token_id: "API token",
  create_time: "created",
  creator: "created by",
  delivered_time: "delivered until",
  delete_time: "being deleted since",
  display_name: "name",
  expire_time: "expires",
  failure_start_time: "failing since",
  grace_expire_time: "old token valid until",
  imported_token: "token imported",
  last_resolve_date: "last resolved",
  last_rotation_time: "last rotation",
  http_status: "HTTP status",
  last_success_time: "last success",
  last_use_time: "last used",
  next_attempt_time: "next attempt",
  previous_secret_expire_time: "old secret signs until",
  provided_id: "group",
  retire_time: "signs until",
  rotator: "rotated by",
  token_create_time: "token since",
  token_expire_time: "token expires",
  update_time: "updated",
  url: "URL",
  user_group_count: "user groups",
  viewer_id: "viewer",
  webhook_id: "webhook",
};

/** The texts that are shown for unset fields. An unset field without a text here is not shown. */
const UNSET: { readonly [field: string]: string } = {
  "ApiToken.expire_time": "never",
  "ApiToken.last_use_time": "never",
  "GetCallerResponse.environment": "all",
  "GetCallerResponse.expire_time": "never",
  "UserGroupInfo.last_resolve_date": "never",
  "Webhook.event_types": "all",
  "Webhook.last_success_time": "never",
};

/** Fields that are not shown: credentials, values that another text contains, and values that only programs need. */
const HIDDEN: ReadonlySet<string> = new Set([
  "token",
  "secret",
  "tag",
  "api_environment_tag",
  "rotation_grace",
  "reencrypt_start_time",
]);

/** The fields that name a resource. These fields come before the other fields of the resource. */
const NAMING = ["provided_id", "id", "api_token_id", "name", "display_name"];

export interface Fact {
  readonly field: DescField;
  readonly label: string;
  readonly value: unknown;
  readonly text: string;
}

/**
 * Returns the labels and texts of the fields of a message and of its nested messages. Omits unset fields that have no
 * text in `UNSET`.
 */
export function factsOf<S extends DescMessage>(schema: S, message: MessageShape<S>): Fact[] {
  const rank = ({ name }: DescField) => (NAMING.includes(name) ? NAMING.indexOf(name) : NAMING.length);
  return schema.fields
    .filter(({ name }) => !HIDDEN.has(name))
    .sort((a, b) => rank(a) - rank(b))
    .flatMap((field) => {
      const value = valueIn(message, field);
      if (field.message && value !== undefined && !isText(field.message)) return factsOf(field.message, value as never);
      const text = textIn(message, field);
      return text === undefined ? [] : { field, label: labelOf(field), value, text };
    });
}

/** Returns the label of a field, such as `created` for `create_time`. */
export function labelOf(field: DescField): string {
  return LABELS[qualified(field)] ?? LABELS[field.name] ?? field.name.replaceAll("_", " ");
}

function qualified({ parent, name }: DescField): string {
  return `${parent.name}.${name}`;
}

/**
 * Returns the field of a message by its name.
 *
 * @throws Error if the field does not exist
 */
export function fieldOf(schema: DescMessage, name: string): DescField {
  const field = schema.fields.find((each) => each.name === name);
  if (!field) throw new Error(`${schema.typeName} has no field ${name}`);
  return field;
}

/**
 * Returns the value of a field. Returns undefined for an unset optional field, for an unset field whose type is a
 * message, and for each field of a oneof.
 */
export function valueIn(message: unknown, { localName }: DescField): unknown {
  return (message as { readonly [name: string]: unknown })[localName];
}

/**
 * Returns the value of a field as the text of a table cell. For an unset field, returns the text in `UNSET`, or
 * undefined if `UNSET` does not contain the field.
 */
export function cellOf(schema: DescMessage, message: unknown, name: string): string | undefined {
  return textIn(message, fieldOf(schema, name));
}

function textIn(message: unknown, field: DescField): string | undefined {
  const name = qualified(field);
  if (name === "Environment.name") return formatEnvironmentName(message as EnvironmentName);
  return textOf(field, valueIn(message, field)) ?? UNSET[name];
}

function textOf(field: DescField, value: unknown): string | undefined {
  if (value === undefined || value === "" || value === false) return undefined;
  if (value === true) return "yes";
  if (field.enum) return enumText(field.enum, value as number);
  if (field.fieldKind === "map") return entriesOf(value as { readonly [key: string]: string }).join(", ") || undefined;
  if (field.fieldKind === "list") return (value as unknown[]).join(", ") || undefined;
  if (field.message) return messageText(field.message, value);
  return String(value);
}

function isText({ typeName }: DescMessage): boolean {
  return typeName.startsWith("google.protobuf.") || typeName === EnvironmentNameSchema.typeName;
}

function messageText({ typeName }: DescMessage, value: unknown): string | undefined {
  if (typeName === "google.protobuf.Timestamp") return timeText(value as Timestamp);
  if (typeName === "google.protobuf.Duration") return durationText(durationMs(value as Duration));
  if (typeName === EnvironmentNameSchema.typeName) return formatEnvironmentName(value as EnvironmentName);
  return JSON.stringify(value);
}

/** Formats the entries of a map, each as `a=1`. */
export function entriesOf(map: { readonly [key: string]: string }): string[] {
  return Object.entries(map).map(([key, value]) => `${key}=${value}`);
}

/**
 * Returns the name of an enum value. For example, the name of `ROLE_ADMIN` is `admin`. Returns undefined for the value
 * 0, the unspecified value.
 */
export function enumText(desc: DescEnum, number: number): string | undefined {
  return number === 0 ? undefined : desc.value[number]?.localName.toLowerCase();
}

/** Returns the names of all values of an enum except the unspecified value. */
export function enumNames(desc: DescEnum): string[] {
  return desc.values.flatMap(({ number }) => enumText(desc, number) ?? []);
}

/** Returns the enum value that `enumText` formats as `name`, or 0 if no value has this name. */
export function enumValue<Value extends number>(desc: DescEnum | GenEnum<Value>, name: string): Value {
  return (desc.values.find(({ number }) => enumText(desc, number) === name)?.number ?? 0) as Value;
}

/** Returns whether the validation rules in `proto/` require a field. */
export function isRequiredField(field: DescField): boolean {
  return getOption(field, rulesOption).required;
}

/** Returns the fields of a request message that set values of a user group. */
export function groupFieldsOf(schema: DescMessage): readonly DescField[] {
  return schema.fields.filter(
    ({ name }) => !["user_group_id", "provided_id", "update_mask", "etag", "token"].includes(name),
  );
}

export function isTimeField({ message }: DescField): boolean {
  return message?.typeName === "google.protobuf.Timestamp";
}

/** Returns whether a field contains a JSON object: a map, or a `google.protobuf.Struct`. */
export function isJsonField({ fieldKind, message }: DescField): boolean {
  return fieldKind === "map" || message?.typeName === "google.protobuf.Struct";
}

export function isObject(value: unknown): value is { [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
