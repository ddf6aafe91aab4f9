import { fromBinary } from "@bufbuild/protobuf";
import { forSuite } from "@user-group-service/testing/opened";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { ADMIN_TOKEN, issueToken } from "../admin.ts";
import { suiteServer } from "../opened.ts";
import { type Known, mutated, ODD, validOf } from "./arbitraries.ts";
import { answerOf, canonical, DOCUMENT, faultOf, type Operation, type Schema } from "./document.ts";

/** Reasons with which the service rejects an invalid request. */
const FAULT_OF_FORM = /VALIDATION_FAILED|MALFORMED_REQUEST/;

/**
 * Messages of rules that a schema cannot express. The document contains these rules only in the descriptions of the
 * fields.
 */
const BEYOND_SCHEMA = [
  /^snapshot_time: is required if the request contains tokens: set the time of the export$/,
  /^snapshot_time: must not be in the future$/,
  /^display_name: must not be empty$/,
  /^token: must be an API token; use LookupUserGroupToken for a user group token$/,
  /^user_groups\[\d+\]\.(?:provided_id|token): must be unique in a request$/,
];

interface Sent {
  readonly query?: { readonly [name: string]: unknown };
  readonly body?: unknown;
  readonly isForm?: boolean;
}

/**
 * Sends generated requests to every operation that responds with JSON. Expects that the service rejects a request if
 * and only if the document rejects it. Expects that every response matches the document.
 *
 * @param numRuns the number of valid requests for each operation. The test sends the same number of mutated requests
 */
export function describeVerdicts({ numRuns, seed }: { readonly numRuns: number; readonly seed: number }): void {
  const server = suiteServer(() => ({ env: { ADMIN_TOKEN } }));
  /**
   * The API tokens with which the test calls operations, by the access that an operation requires. `group` is the token
   * of the user group `known`.
   */
  const bearers = forSuite(
    async () => {
      const { token } = await issueToken(server, "admin");
      const headers = { authorization: `Token ${server.tokens.customer}` };
      const answer = await fetch(`${server.url}/api/user?user_group_id=known&name=Known`, { headers });
      const { user_group } = (await answer.json()) as { user_group: { token: string } };
      return { admin: token, any: token, root: ADMIN_TOKEN, manage: server.tokens.customer, group: user_group.token };
    },
    () => {},
  );
  const tokenFor = (access: string) => {
    if (access === "ADMIN_TOKEN") return bearers.root;
    return access === "admin" || access === "any" ? bearers.admin : bearers.manage;
  };
  const known = (): Known => {
    const ids = ["known"];
    const tokens = [bearers.group, bearers.admin];
    return { userGroupId: ids, user_group_id: ids, token: tokens, currentToken: tokens, current_token: tokens };
  };

  async function send(path: string, method: string, { operation, sent }: { operation: Operation; sent: Sent }) {
    const { query, body, isForm } = sent;
    const search = new URLSearchParams(Object.entries(query ?? {}).map(([name, value]) => [name, textOf(value)]));
    const isOpen = operation["x-access"] === "open";
    const type = isForm ? "application/x-www-form-urlencoded" : "application/json";
    const answer = await fetch(`${server.url}${path}?${search}`, {
      method: method.toUpperCase(),
      headers: {
        ...(body !== undefined && { "content-type": type }),
        ...(!isOpen && { authorization: `Token ${tokenFor(operation["x-access"])}` }),
      },
      ...(body !== undefined && {
        body: isForm ? new URLSearchParams(body as { [name: string]: string }) : JSON.stringify(body),
      }),
    });
    const text = await answer.text();
    const json: unknown = JSON.parse(text);
    const { schema, reasons } = answerOf(operation, answer.status);
    expect(faultOf(schema, json), `${answer.status} ${text}`).toBeUndefined();
    if (!answer.ok) expect(reasons, `${answer.status} ${text}`).toContain(reasonOf(json));
    return { status: answer.status, text, json };
  }

  /**
   * Sends a request. Expects that the service and the document agree on whether the request is valid.
   *
   * @returns whether the service accepts the request
   */
  async function judge(path: string, method: string, { operation, sent, fault }: Judged): Promise<boolean> {
    const { status, text, json } = await send(path, method, { operation, sent });
    // If the request or a header is too large, the service does not check the fields.
    if (/MESSAGE_TOO_LARGE|HEADER_TOO_LARGE/.test(text)) return false;
    const isRefused = status === 400 && isFaultOfForm(json);
    const { message = "", error = { message } } = json as { message?: string; error?: { message: string } };
    if (isRefused && fault === undefined && BEYOND_SCHEMA.some((each) => each.test(error.message))) return false;
    expect(isRefused, `${JSON.stringify(sent).slice(0, 2000)}\n${text}\nby the document: ${fault ?? "valid"}`).toBe(
      fault !== undefined,
    );
    return !isRefused;
  }

  const described = Object.entries(DOCUMENT.paths)
    // Requests to paths below /e/ have no fields.
    .filter(([path]) => !path.includes("{"))
    .flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { responses }]) => responses["200"]?.content?.["application/json"])
        .map(([method, operation]) => ({ path, method, operation, name: operation.operationId })),
    );

  it.each(described)("the service and the document agree on requests of $name", async ({ path, method, operation }) => {
    const taken = { true: 0, false: 0 };
    const requests = requestsOf(operation, known());
    for (const request of [requests.valid, requests.mutated]) {
      const property = fc.asyncProperty(request, async (sent) => {
        const fault = requests.faultOf(sent);
        taken[`${await judge(path, method, { operation, sent, fault })}`]++;
      });
      await fc.assert(property, { numRuns, seed });
    }
    expect(taken.true).toBeGreaterThan(0);
    if (numRuns >= 50 && requests.hasRules) expect(taken.false).toBeGreaterThan(0);
  });

  describe("for field names as in the proto files", () => {
    const rpcs = described.filter(({ path }) => path.startsWith("/usergroup."));
    it.each(rpcs)("the service and the document agree on requests of $name", async ({ path, method, operation }) => {
      const requests = requestsOf(operation, known());
      const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
      const property = fc.asyncProperty(fc.oneof(requests.valid, requests.mutated), async (sent) => {
        const body = byProtoNames(schema, sent.body);
        await judge(path, method, { operation, sent: { body }, fault: requests.faultOf(sent) });
      });
      await fc.assert(property, { numRuns: Math.ceil(numRuns / 4), seed });
    });
  });
}

interface Judged {
  readonly operation: Operation;
  readonly sent: Sent;
  /** The reason why the request does not match the document. Undefined if the request matches the document. */
  readonly fault: string | undefined;
}

/** Returns the reason of an error. If the error is a Connect error, its reason is in a detail of the error. */
function reasonOf(json: unknown): string {
  const { error, details = [] } = json as {
    readonly error?: { readonly reason: string };
    readonly details?: readonly { readonly type: string; readonly value: string }[];
  };
  const info = details.find(({ type }) => type === "google.rpc.ErrorInfo");
  return error?.reason ?? fromBinary(ErrorInfoSchema, Buffer.from(info?.value ?? "", "base64")).reason;
}

function isFaultOfForm(json: unknown): boolean {
  return FAULT_OF_FORM.test(reasonOf(json));
}

/** Returns generators of valid and mutated requests, and the document's verdict on each request. */
function requestsOf({ requestBody, parameters = [] }: Operation, known: Known) {
  const schema = requestBody?.content["application/json"]?.schema;
  if (schema) {
    const isForm = requestBody.content["application/x-www-form-urlencoded"] ? fc.boolean() : fc.constant(false);
    const valid = validOf(schema, known);
    // In a form, every field is a string. So a body that has other values is sent as JSON.
    const send = (bodies: fc.Arbitrary<unknown>) =>
      fc.tuple(bodies, isForm).map(([body, form]): Sent => ({ body, isForm: form && isFlatText(body) }));
    return {
      valid: send(valid),
      mutated: send(mutated(schema, valid)),
      faultOf: ({ body }: Sent) => {
        const known = canonical(schema, body);
        return isWellFormed(known) ? faultOf(schema, known) : "not Unicode";
      },
      hasRules:
        schema.$ref === undefined ||
        !/\.(?:List\w+|GetCaller|GetEnvironment|HealthList|HealthCheck)Request$/.test(schema.$ref),
    };
  }
  const inQuery = parameters.filter((each) => each.in === "query");
  const schemaOf = ({ schema }: (typeof inQuery)[number]) => schema["x-json"] ?? schema;
  const fields = Object.fromEntries(inQuery.map((each) => [each.name, validOf(schemaOf(each), known, each.name)]));
  const requiredKeys = inQuery.flatMap(({ name, required }) => (required ? [name] : []));
  const valid = fc.record(fields, { requiredKeys });
  const names = inQuery.map(({ name }) => name);
  const odd = fc
    .tuple(
      valid,
      fc.constantFrom(...names),
      fc.option(
        ODD.filter((value) => isWellFormed(value)),
        { nil: undefined },
      ),
    )
    .map(([query, name, value]) => {
      const { [name]: _, ...others } = query as { [name: string]: unknown };
      return value === undefined ? others : { ...others, [name]: value };
    });
  return {
    valid: valid.map((query): Sent => ({ query: query as Sent["query"] })),
    mutated: odd.map((query): Sent => ({ query })),
    faultOf: ({ query = {} }: Sent) => {
      for (const each of inQuery) {
        const value = query[each.name];
        if (value === undefined) {
          if (each.required) return `${each.name} is missing`;
          continue;
        }
        const fault = faultOf(schemaOf(each), each.schema["x-json"] ? value : textOf(value));
        if (fault) return `${each.name}: ${fault}`;
      }
      return undefined;
    },
    hasRules: true,
  };
}

/** Formats a value for a query string. Returns a string unchanged, and any other value as JSON. */
function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function isFlatText(body: unknown): boolean {
  return (
    typeof body === "object" &&
    body !== null &&
    !Array.isArray(body) &&
    isWellFormed(body) &&
    Object.values(body).every((value) => typeof value === "string")
  );
}

/**
 * Returns whether all strings in a value are valid Unicode. A check is needed, because a string in JSON can contain
 * half of a surrogate pair.
 */
function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, each]) => key.isWellFormed() && isWellFormed(each));
}

/**
 * Replaces the field names of a request with the names in the proto files, such as `user_group_id` instead of
 * `userGroupId`.
 */
function byProtoNames(schema: Schema, value: unknown): unknown {
  const { properties } = schema.$ref
    ? (DOCUMENT.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {})
    : schema;
  if (!properties || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const field = properties[name];
      return field
        ? [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), byProtoNames(field, each)]
        : [name, each];
    }),
  );
}
