import type { JsonSchema } from "./rules.ts";
import { refTo } from "./schemas.ts";
import type { Reason } from "./tables.ts";

/** The statuses that errors of calls have. Errors with other statuses share one response. */
const OF_CALLS = [400, 401, 403, 404, 409, 412, 429, 500, 503, 504];

/** The forms that errors have: that of Connect, and that of REST. */
type ErrorForm = "Connect" | "Rest";

/** The schemas and responses of errors. */
export interface ErrorComponents {
  readonly schemas: { readonly [name: string]: JsonSchema };
  readonly responses: { readonly [name: string]: JsonSchema };
  /** The responses of an operation, by status. @param options isOpen: whether it needs no API token */
  readonly of: (form: ErrorForm, options: { readonly isOpen: boolean }) => { readonly [status: string]: JsonSchema };
}

/** Makes the errors of the table of reasons: a response for each status that calls have, and one for all others. */
export function errorComponents(reasons: readonly Reason[]): ErrorComponents {
  const forms = { Connect: byStatus(reasons.map(overConnect)), Rest: byStatus(reasons) };
  const responses = (["Connect", "Rest"] as const).flatMap((form) =>
    [...forms[form]].map(([status, group]) => [nameOf(form, status), responseOf(form, group)] as const),
  );
  const of: ErrorComponents["of"] = (form, { isOpen }) => {
    const statuses = [...forms[form].keys()].filter((status) => !(isOpen && (status === "401" || status === "403")));
    return Object.fromEntries(
      statuses.sort().map((status) => [status, { $ref: `#/components/responses/${nameOf(form, status)}` }]),
    );
  };
  return { schemas: schemasOf(reasons), responses: Object.fromEntries(responses), of };
}

const nameOf = (form: ErrorForm, status: string) => `${form}Error${status === "default" ? "" : status}`;

function overConnect(reason: Reason): Reason {
  return { ...reason, status: reason.connectStatus };
}

function byStatus(reasons: readonly Reason[]): Map<string, Reason[]> {
  const groups = new Map<string, Reason[]>();
  for (const reason of reasons) {
    const status = OF_CALLS.includes(reason.status) ? String(reason.status) : "default";
    groups.set(status, [...(groups.get(status) ?? []), reason]);
  }
  return groups;
}

function responseOf(form: ErrorForm, reasons: readonly Reason[]): JsonSchema {
  const lines = reasons.map(({ reason, status, advice }) => `- \`${reason}\` (${status}): ${advice}`);
  const code = { enum: unique(reasons.map(({ code }) => code)) };
  const reason = { enum: unique(reasons.map(({ reason }) => reason)) };
  const narrowed = form === "Connect" ? { code } : { error: { properties: { code, reason } } };
  return {
    description: lines.join("\n"),
    content: { "application/json": { schema: { ...refTo(`${form}Error`), properties: narrowed } } },
  };
}

const unique = (values: readonly string[]) => [...new Set(values)];

function schemasOf(reasons: readonly Reason[]): ErrorComponents["schemas"] {
  const code = { type: "string", enum: unique(reasons.map(({ code }) => code)) };
  const message = { type: "string", description: "For people; it may change." };
  const detail = {
    type: "object",
    required: ["type", "value"],
    properties: {
      type: { type: "string", description: "Its type, such as `google.rpc.ErrorInfo`." },
      value: { type: "string", description: "The message in protobuf's binary format, as base64 without padding." },
      debug: { description: "The message as JSON, for people." },
    },
  };
  const violation = {
    type: "object",
    required: ["field", "description"],
    properties: { field: { type: "string" }, description: { type: "string" } },
  };
  const restError = {
    type: "object",
    required: ["code", "reason", "message", "field_violations"],
    properties: {
      code,
      reason: { type: "string", description: "Stable, for programs." },
      message,
      outcome: {
        type: "string",
        enum: ["not_made", "unknown"],
        description: "Of `unavailable`: what became of the change.",
      },
      cause: {
        type: "string",
        description: "Of `STORE_UNAVAILABLE`, for API tokens of role `admin`: why the store is unavailable.",
      },
      field_violations: { type: "array", items: violation },
    },
  };
  return {
    ConnectError: {
      type: "object",
      description:
        "An error over Connect. Of its details `google.rpc.ErrorInfo` has the reason, which is stable, and `google.rpc.BadRequest` the fields that are invalid.",
      required: ["code"],
      properties: { code, message, details: { type: "array", items: detail } },
    },
    RestError: {
      type: "object",
      description: "An error over REST.",
      required: ["success", "error"],
      properties: { success: { const: 0 }, error: restError },
    },
  };
}
