import { type Calling, hasReason, isCommon } from "./reasons.ts";
import type { JsonSchema } from "./rules.ts";
import { refTo } from "./schemas.ts";
import type { Reason } from "./tables.ts";

/** The HTTP statuses that have a separate response. Errors with any other status share one response. */
const OF_CALLS = [400, 401, 403, 404, 409, 412, 429, 500, 503, 504];

type ErrorForm = "Connect" | "Rest";

export interface ErrorComponents {
  readonly schemas: { readonly [name: string]: JsonSchema };
  readonly responses: { readonly [name: string]: JsonSchema };
  readonly of: (calling: Calling) => { readonly [status: string]: JsonSchema };
  readonly rest: (reason: string) => JsonSchema;
}

/**
 * Creates the schemas and responses of errors from the table of reasons. An operation has a response for each possible
 * status.
 */
export function errorComponents(reasons: readonly Reason[]): ErrorComponents {
  const forms = { Connect: byStatus(reasons.map(overConnect)), Rest: byStatus(reasons) };
  /** The shared responses. They contain the errors that every operation with an API token can return. */
  const common = (["Connect", "Rest"] as const).flatMap((form) =>
    [...forms[form]].flatMap(([status, group]) => {
      const shared = group.filter(({ reason }) => isCommon(reason));
      return shared.length > 0 ? [[nameOf(form, status), responseOf(form, shared)] as const] : [];
    }),
  );
  const responses = Object.fromEntries(common);
  const of: ErrorComponents["of"] = (calling) => {
    const form = calling.isRest ? "Rest" : "Connect";
    const own = [...forms[form]].map(
      ([status, group]) => [status, group.filter(({ reason }) => hasReason(reason, calling))] as const,
    );
    return Object.fromEntries(
      own
        .filter(([, group]) => group.length > 0)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([status, group]) => {
          const name = nameOf(form, status);
          const response = responseOf(form, group);
          const isShared = JSON.stringify(responses[name]) === JSON.stringify(response);
          return [status, isShared ? { $ref: `#/components/responses/${name}` } : response];
        }),
    );
  };
  const rest = (reason: string) =>
    responseOf(
      "Rest",
      reasons.filter((each) => each.reason === reason),
    );
  return { schemas: schemasOf(reasons), responses, of, rest };
}

/**
 * Returns the name of a response. No schema may have this name, because client generators use one namespace for schemas
 * and responses.
 */
const nameOf = (form: ErrorForm, status: string) => `${form}${status === "default" ? "Other" : status}`;

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
  return {
    description: lines.join("\n"),
    content: { "application/json": { schema: refTo(`${form}Error`) } },
    "x-reasons": reasons.map(({ reason }) => reason),
  };
}

const unique = (values: readonly string[]) => [...new Set(values)];

function schemasOf(reasons: readonly Reason[]): ErrorComponents["schemas"] {
  const code = { type: "string", enum: unique(reasons.map(({ code }) => code)) };
  const message = { type: "string", description: "Message for people. The wording may change." };
  const detail = {
    type: "object",
    required: ["type", "value"],
    properties: {
      type: { type: "string", description: "Type of the detail, such as `google.rpc.ErrorInfo`." },
      value: { type: "string", description: "The detail in protobuf binary format, as base64 without padding." },
      debug: { description: "The detail as JSON, for people." },
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
      reason: { type: "string", description: "Stable reason of the error, for programs." },
      message,
      outcome: {
        type: "string",
        enum: ["not_made", "unknown"],
        description:
          "Present only for `unavailable`. `not_made`: the change was not made. `unknown`: the change may have been made.",
      },
      cause: {
        type: "string",
        description:
          "The reason why the store is unavailable. Present only for `STORE_UNAVAILABLE`, and only if the API token has the role `admin`.",
      },
      field_violations: { type: "array", items: violation },
    },
  };
  return {
    ConnectError: {
      type: "object",
      description:
        "An error over Connect. In `details`, `google.rpc.ErrorInfo` contains the stable reason, and `google.rpc.BadRequest` contains the invalid fields.",
      required: ["code"],
      properties: { code, message, details: { type: "array", items: detail } },
    },
    RestError: {
      type: "object",
      description: "An error over REST.",
      required: ["success", "error"],
      properties: { success: { type: "integer", format: "int64", const: 0 }, error: restError },
    },
  };
}
