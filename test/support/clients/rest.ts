import { Agent } from "node:http";
import { gunzipSync, gzipSync } from "node:zlib";
import { fromJson } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { errorFromJson } from "@connectrpc/connect/protocol-connect";
import { http1 } from "@user-group-service/testing/http";
import { ViewerService } from "../../../gen/usergroup/v1/viewer_service_pb.ts";
import type { JsonObject } from "../../../src/domain/user-group.ts";
import { callFailureOf, viewerOf } from "./connect.ts";
import { CallFailure, type CallHeaders, type GroupInput, type GroupResult, type ServiceClient } from "./types.ts";

interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: JsonObject;
}

type Exchange = (
  method: string,
  target: string,
  headers: CallHeaders,
  body: JsonObject | undefined,
) => Promise<HttpAnswer>;

const MASKABLE = ["name", "mapping", "properties"] as const;

/**
 * Creates a REST client that uses `node:http`. If `queryOnGet` is true, the client sends the fields of a GET in the
 * query string. Otherwise, it sends them in the body.
 */
export function nodeHttpClient(url: string, { gzip = false, queryOnGet = false } = {}): ServiceClient {
  const agent = new Agent({ keepAlive: true });
  const exchange: Exchange = async (method, target, headers, given) => {
    const text = given && JSON.stringify(given);
    const compression = gzip ? { "content-encoding": "gzip", "accept-encoding": "gzip" } : {};
    const {
      status,
      headers: received,
      body,
    } = await http1(url, target, {
      ...{ agent, method, body: text && gzip ? gzipSync(text) : text },
      headers: { "content-type": "application/json", ...compression, ...headers },
    });
    return {
      status,
      headers: new Headers(received as CallHeaders),
      body: parse(received["content-encoding"] === "gzip" ? gunzipSync(body) : body),
    };
  };
  return restClient(exchange, { queryOnGet, close: () => agent.destroy() });
}

/**
 * Creates a REST client that uses `fetch`. The client sends the fields of a GET in the query string, because `fetch`
 * cannot send a body with a GET.
 */
export function fetchClient(url: string): ServiceClient {
  const exchange: Exchange = async (method, target, headers, body) => {
    const response = await fetch(new URL(target, url), {
      method,
      headers: { ...(body && { "content-type": "application/json" }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    return {
      status: response.status,
      headers: response.headers,
      body: parse(Buffer.from(await response.arrayBuffer())),
    };
  };
  return restClient(exchange, { queryOnGet: true, close: () => {} });
}

function restClient(
  exchange: Exchange,
  { queryOnGet, close }: { queryOnGet: boolean; close: () => void },
): ServiceClient {
  return {
    getUserGroup: async (input, headers) => {
      const fields = bodyOf(input);
      const answer = queryOnGet
        ? await exchange("GET", `/api/user?${queryOf(fields)}`, headers, undefined)
        : await exchange("GET", "/api/user", headers, fields);
      return { ...groupAnswer(answer), newUserGroup: answer.body["new_user_group"] === true };
    },
    updateUserGroup: async ({ updateMask, etag, ...input }, headers) => {
      const condition: CallHeaders = etag === undefined ? {} : { "if-match": `"${etag}"` };
      const answer = await exchange("PUT", "/api/user", { ...headers, ...condition }, masked(input, updateMask));
      return groupAnswer(answer);
    },
    rotateUserGroupToken: async ({ requestId, ...input }, headers) => {
      const key: CallHeaders = requestId === undefined ? {} : { "idempotency-key": requestId };
      const fields = {
        current_token: input.currentToken,
        user_group_id: input.userGroupId,
        previous_token_ttl: input.previousTokenTtl,
      };
      return groupAnswer(await exchange("POST", "/api/user", { ...headers, ...key }, present(fields)));
    },
    // `/api/viewer` does not return the reasons of refusals, so this method calls Connect JSON.
    resolveViewer: async ({ token }, headers) => {
      const target = "/usergroup.v1.ViewerService/ResolveViewer";
      const answer = await exchange("POST", target, headers, present({ token }));
      const { status, body } = answer;
      const unreadable = new ConnectError("the error is unreadable");
      if (status !== 200) throw callFailureOf(errorFromJson(body, answer.headers, unreadable), status);
      const viewer = viewerOf(fromJson(ViewerService.method.resolveViewer.output, body));
      return { viewer, requestId: requestIdOf(answer) };
    },
    close,
  };
}

function bodyOf({ userGroupId, name, mapping, properties }: GroupInput): JsonObject {
  return present({ user_group_id: userGroupId, name, mapping: mapping && { ...mapping }, properties });
}

/**
 * Returns the REST body of an update. REST has no update mask, so the body contains only the fields in the mask. If a
 * field in the mask has no value, its value in the body is null, which clears the field.
 */
function masked(input: GroupInput, updateMask: string | undefined): JsonObject {
  const fields = bodyOf(input);
  if (updateMask === undefined) return fields;
  const paths: readonly string[] = updateMask === "*" ? MASKABLE : updateMask.split(",");
  const chosen = Object.fromEntries(paths.map((path) => [path, fields[path] ?? null]));
  return { ...present({ user_group_id: input.userGroupId }), ...chosen };
}

function queryOf(fields: JsonObject): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    query.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  return query;
}

function present(fields: { [name: string]: JsonObject[string] | undefined }): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject;
}

function groupAnswer(answer: HttpAnswer): { group: GroupResult; requestId: string | undefined } {
  if (answer.status !== 200) throw restFailure(answer);
  const group = answer.body["user_group"] as JsonObject;
  const etag = answer.headers.get("etag");
  return {
    group: {
      teamId: group["team_id"] as number,
      token: group["token"] as string,
      name: group["name"] as string,
      providedId: group["provided_id"] as string,
      properties: group["properties"] as JsonObject | null,
      tag: group["api_environment_tag"] as "Customer",
      ...(etag !== null && { etag: JSON.parse(etag) as string }),
    },
    requestId: requestIdOf(answer),
  };
}

function restFailure(answer: HttpAnswer): CallFailure {
  const error = answer.body["error"] as { [name: string]: string } & {
    field_violations: { field: string; description: string }[];
  };
  const { code = "", reason = "", message = "", outcome, field_violations: violations } = error;
  const challenge = answer.headers.get("www-authenticate") ?? undefined;
  const rest = { requestId: requestIdOf(answer), status: answer.status, challenge, outcome };
  return new CallFailure({ code, reason, violations, message }, rest);
}

function parse(bytes: Uint8Array): JsonObject {
  return JSON.parse(Buffer.from(bytes).toString("utf8")) as JsonObject;
}

function requestIdOf({ headers }: HttpAnswer): string | undefined {
  return headers.get("x-request-id") ?? undefined;
}
