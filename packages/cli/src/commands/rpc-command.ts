import { randomUUID } from "node:crypto";
import type { DescField, DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { type Command, Option } from "commander";
import {
  enumNames,
  enumValue,
  fieldOf,
  groupFieldsOf,
  isRequiredField,
  valueIn,
} from "../../../operator/src/fields.ts";
import { durationIn, entryOf, parseObject, timeIn } from "../../../operator/src/input.ts";
import { pagesOf } from "../../../operator/src/pages.ts";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { readPlainFile } from "../files.ts";
import type { Secret } from "../output/output.ts";
import { type ColumnOf, columnsOf } from "../output/table.ts";
import { type Confirmation, confirm } from "../questions.ts";
import { readToken } from "../secret-input.ts";
import { connect, type Session } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import {
  environmentOf,
  environmentOption,
  limitOption,
  type Options,
  outFileOf,
  withOut,
  yesOption,
} from "./options.ts";

interface Traits {
  /** Whether an empty text is invalid. Default: no. */
  readonly isFilled?: boolean;
  /**
   * The name of the credential in the prompt. Undefined if the field is not a credential. The option of a credential
   * takes the path of a file that contains the credential, or `-` for standard input.
   */
  readonly secret?: string;
  /** Whether to read the credential from the terminal or standard input if the option is missing. Default: no. */
  readonly isAsked?: boolean;
}

export class FieldOption extends Option {
  readonly traits: Traits;

  constructor(flags: string, description = "", traits: Traits = {}) {
    super(flags, description);
    this.traits = traits;
  }
}

/**
 * The inputs of a command. Each key is the name of the request field that the input sets. A `FieldOption` defines an
 * option of the command. A string such as `<id>` defines an argument.
 */
export type FieldInputs = { readonly [field: string]: FieldOption | string };

interface RpcCommand<I extends DescMessage, O extends DescMessage> {
  /**
   * The inputs of the command. If the request has a field of `SUBJECTS` and `fields` does not contain this field, the
   * command also has an argument `<id>`, which sets the field.
   */
  readonly fields?: FieldInputs;
  /** Constant fields of the request. */
  readonly preset?: { readonly [field: string]: unknown };
  /** The columns of the table. Undefined if the response is not a list. */
  readonly columns?: readonly ColumnOf[];
  /** The note to write if the list is empty. */
  readonly none?: string;
  /**
   * Returns the confirmation that the user must give before a destructive call. Returns undefined if the call needs no
   * confirmation.
   */
  readonly confirm?: (request: MessageShape<I>) => Confirmation | undefined;
  /** If the response contains a credential, returns the texts that are shown with the credential. */
  readonly secret?: (response: MessageShape<O>, request: MessageShape<I>) => Omit<Secret, "file">;
  /** Returns a text to show instead of the response. If `--json` is set, the command shows the response. */
  readonly done?: (request: MessageShape<I>, response: MessageShape<O>) => string;
  /**
   * Returns a note about the response, or undefined. The command writes the note after the result. If the response is a
   * page of a list, the command writes the note before the page.
   */
  readonly note?: (response: MessageShape<O>, request: MessageShape<I>) => string | undefined;
  /**
   * The name of the response field to show. If `part` is undefined, the command shows the only field of the response,
   * or the whole response if it has several fields.
   */
  readonly part?: string;
}

/** Request fields that contain the id of a resource. By default, a command takes this id as an argument. */
const SUBJECTS = ["user_group_id", "api_token_id", "webhook_id"];

/** Defines a command that calls one RPC. The arguments and options of the command set fields of the request. */
export function rpcCommand<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  description: string,
  spec: RpcCommand<I, O> = {},
): DefineCommand {
  const subject = SUBJECTS.find((name) => hasField(method.input, name) && !(name in (spec.fields ?? {})));
  const { columns } = spec;
  const fields: FieldInputs = { ...(subject !== undefined && { [subject]: "<id>" }), ...spec.fields };
  return (command, shell) => {
    addInputs(command.description(description), method.input, fields);
    if (hasField(method.input, "page_token")) command.addOption(limitOption());
    if (spec.confirm) command.addOption(yesOption());
    if (spec.secret) withOut(command);
    runs(command, shell, async (session, ...given) => {
      const options = given.at(-1) as Options & { readonly [option: string]: unknown };
      const inputs = inputsOf(method.input, fields, options, given.slice(0, -1));
      const request = (await requestOf(session, method.input, inputs, spec.preset)) as MessageShape<I> & {
        readonly requestId?: string;
      };
      const file = spec.secret && (await outFileOf(options));
      // Checks the settings before the first prompt.
      const { call } = await connect(session);
      await readSecrets(session, request, inputs);
      const confirmation = spec.confirm?.(request);
      if (confirmation) await confirm(shell, confirmation, options.yes);
      const { out } = session;
      const note = (response: MessageShape<O>) => {
        const text = spec.note?.(response, request);
        if (text !== undefined) out.note(text);
      };
      if (columns) {
        const list = method.output.fields.find(({ fieldKind }) => fieldKind === "list") as DescField;
        const items = list.message as DescMessage;
        const pages = pagesOf(options.limit, async (page) => {
          const response = await call(method, { ...request, ...page });
          note(response);
          const { nextPageToken = "" } = response as { readonly nextPageToken?: string };
          return { items: valueIn(response, list) as MessageShape<DescMessage>[], nextPageToken };
        });
        if (!(await out.list(items, columnsOf(items, columns), pages)) && spec.none) out.note(spec.none);
        return;
      }
      const response = await repeatable(request, () => call(method, request));
      const [schema, message] = partOf(method.output, response, spec.part);
      if (spec.secret) return out.secret(schema, message, { ...spec.secret(response, request), file });
      const shown = "token" in message ? { ...message, token: "" } : message;
      if (spec.done && !out.isJson) out.note(spec.done(request, response));
      else await out.record(schema, shown);
      note(response);
    });
  };
}

export function addInputs(command: Command, schema: DescMessage, fields: FieldInputs): void {
  for (const [name, input] of Object.entries(fields)) {
    if (typeof input === "string") command.argument(input);
    else {
      const { enum: values } = fieldOf(schema, name);
      command.addOption(values ? input.choices(enumNames(values)) : input);
    }
  }
  if (hasField(schema, "environment") && !("environment" in fields)) command.addOption(environmentOption());
  if (isGroupUpdate(schema))
    command.addOption(
      new Option("--clear <field...>", "fields to clear").choices(groupFieldsOf(schema).map(({ name }) => name)),
    );
}

interface Input extends Traits {
  readonly field: DescField;
  /** The option or argument, such as `--grace` or `ID`. */
  readonly label: string;
  /** The value on the command line. Undefined if there is no value. Null if `--clear` names the field. */
  readonly value: unknown;
}

export function inputsOf(
  schema: DescMessage,
  fields: FieldInputs,
  options: Options & { readonly [option: string]: unknown },
  args: readonly unknown[] = [],
): Input[] {
  const left = [...args];
  const cleared = (options["clear"] as readonly string[] | undefined) ?? [];
  const all: FieldInputs = {
    ...(hasField(schema, "environment") && { environment: new FieldOption("--env <name>") }),
    ...fields,
  };
  return Object.entries(all).map(([name, given]) => {
    const field = fieldOf(schema, name);
    if (typeof given === "string") return { field, label: given.slice(1, -1).toUpperCase(), value: left.shift() };
    const value = options[given.attributeName()];
    const input = { ...given.traits, field, label: given.long ?? "" };
    if (!cleared.includes(name)) return { ...input, value };
    if (value !== undefined) throw usageFailure(`give either ${input.label} or --clear ${name}`);
    return { ...input, value: null };
  });
}

/** Builds a request. `readSecrets` adds the credentials later. @throws Failure if an input is not valid */
export async function requestOf(
  session: Session,
  schema: DescMessage,
  inputs: readonly Input[],
  preset: object = {},
): Promise<object> {
  const request: { [field: string]: unknown } = { ...preset };
  for (const input of inputs) if (input.secret === undefined) set(request, input.field, await parse(session, input));
  for (const oneof of schema.oneofs) {
    const choice = inputs.filter(({ field }) => field.oneof === oneof);
    const given = choice.filter(({ value }) => value !== undefined);
    if (given.length > 1 || (given.length === 0 && !choice.some(({ isAsked }) => isAsked)))
      throw usageFailure(`give exactly one of ${choice.map(({ label }) => label).join(" and ")}`);
  }
  if (hasField(schema, "update_mask")) request["updateMask"] = { paths: [...Object.keys(preset), ...pathsOf(inputs)] };
  return request;
}

function set(request: object, { localName, oneof }: DescField, value: unknown): void {
  if (value === undefined) return;
  Object.assign(request, oneof ? { [oneof.localName]: { case: localName, value } } : { [localName]: value });
}

/** Returns the paths of the fields that an update changes. @throws Failure if the command line changes no field */
function pathsOf(inputs: readonly Input[]): string[] {
  const changes = inputs.filter(
    ({ field: { name }, label }) => label.startsWith("--") && name !== "etag" && name !== "environment",
  );
  const paths = changes.filter(({ value }) => value !== undefined).map(({ field }) => field.name);
  if (paths.length === 0 && changes.length > 0)
    throw usageFailure("nothing to change", `give at least one of ${changes.map(({ label }) => label).join(", ")}`);
  return paths;
}

async function parse(session: Session, { field, label, value, isFilled }: Input): Promise<unknown> {
  if (field.name === "environment") {
    const environment = environmentOf(session, { env: value as string | undefined });
    if (environment || !isRequiredField(field)) return environment;
    throw usageFailure("the environment is missing", "give --env NAME, NAME/Customer or NAME/Testing");
  }
  if (field.name === "request_id") return value ?? randomUUID();
  if (value === null) return undefined;
  if (field.fieldKind === "map" && Array.isArray(value))
    return Object.fromEntries(value.map((text) => entryIn(label, text)));
  if (typeof value !== "string") return value;
  if (isFilled && value.trim() === "") throw usageFailure(`${label} must not be empty`);
  if (field.enum) return enumValue(field.enum, value);
  const type = field.message?.typeName;
  if (type === "google.protobuf.Duration") return durationIn(label, value);
  if (type === "google.protobuf.Timestamp" && value === "never") return undefined;
  // For `start_time` and `end_time`, a duration such as `1h` means a time before now. For any other field, the duration
  // means a time after now.
  if (type === "google.protobuf.Timestamp") return timeIn(label, value, /^(start|end)_time$/.test(field.name) ? -1 : 1);
  return type === "google.protobuf.Struct" ? objectIn(label, value) : value;
}

function entryIn(label: string, text: string): [string, string] {
  const entry = entryOf(text);
  if (!entry) throw usageFailure(`${label} takes entries of the form SCHEMA=SOURCE`);
  return entry;
}

async function objectIn(label: string, given: string) {
  const isJson = /^\s*[{[]/.test(given);
  const text = isJson ? given : await readPlainFile(given);
  return parseObject(text, isJson ? label : given);
}

async function readSecrets({ shell }: Session, request: object, inputs: readonly Input[]): Promise<void> {
  for (const { field, secret, isAsked, value } of inputs) {
    if (secret === undefined) continue;
    const isReplaced = inputs.some(
      (other) => field.oneof && other.field.oneof === field.oneof && other.value !== undefined,
    );
    if (value !== undefined || (isAsked && !isReplaced))
      set(request, field, await readToken(shell, secret, value as string | undefined));
  }
}

/**
 * Makes a call. If the service is unavailable and the change may have been made, the hint of the failure contains the
 * `--request-id` for a safe retry.
 */
export async function repeatable<T>(
  { requestId }: { readonly requestId?: string },
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (requestId === undefined || !(error instanceof Failure)) throw error;
    const { exitCode, outcome } = error.detail;
    if (exitCode !== EXIT.unavailable || outcome === "not_made") throw error;
    const hint = [error.detail.hint, againWith(requestId)].filter(Boolean).join("; ");
    throw new Failure(error.message, { ...error.detail, hint });
  }
}

export function againWith(requestId: string): string {
  return `run the same command again with --request-id ${requestId}: the service makes the change at most once`;
}

function hasField(schema: DescMessage, name: string): boolean {
  return schema.fields.some((field) => field.name === name);
}

function isGroupUpdate(schema: DescMessage): boolean {
  return hasField(schema, "update_mask") && hasField(schema, "user_group_id");
}

/** Returns the message to show, and its type. @param name see `part` in `RpcCommand` */
function partOf(schema: DescMessage, response: object, name?: string): [DescMessage, MessageShape<DescMessage>] {
  const field = name ? fieldOf(schema, name) : schema.fields.length === 1 ? schema.fields[0] : undefined;
  const value = field?.message && valueIn(response, field);
  return [field?.message ?? schema, (value ?? response) as MessageShape<DescMessage>];
}
