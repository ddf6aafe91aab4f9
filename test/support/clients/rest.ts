import { Agent, type IncomingHttpHeaders } from "node:http";
import { gunzipSync, gzipSync } from "node:zlib";
import { http1 } from "@user-group-service/testing/http";
import type { JsonObject } from "../../../src/domain/user-group.ts";
import {
  CallFailure,
  type CallHeaders,
  type GroupInput,
  type GroupResult,
  type ServiceClient,
  type ViewerResult,
} from "./types.ts";

/** A response with a JSON body. */
interface HttpAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  readonly body: JsonObject;
}

type Exchange = (
  method: string,
  target: string,
  headers: CallHeaders,
  body: JsonObject | undefined,
) => Promise<HttpAnswer>;

const MASKABLE = ["name", "mapping", "properties"] as const;

/** A REST client by `node:http`. Its GETs have a body, unless the fields belong into the query string. */
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
      header: (name) => single(received, name),
      body: parse(received["content-encoding"] === "gzip" ? gunzipSync(body) : body),
    };
  };
  return restClient(exchange, { queryOnGet, close: () => agent.destroy() });
}

/** A REST client by `fetch`. It cannot send a body with GET, so the fields go into the query string. */
export function fetchClient(url: string): ServiceClient {
  const exchange: Exchange = async (method, target, headers, body) => {
    const response = await fetch(new URL(target, url), {
      method,
      headers: { ...(body && { "content-type": "application/json" }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    return {
      status: response.status,
      header: (name) => response.headers.get(name) ?? undefined,
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
    // REST has no such call, so its clients use Connect JSON.
    resolveViewer: async ({ token }, headers) => {
      const answer = await exchange("POST", "/usergroup.v1.ViewerService/ResolveViewer", headers, present({ token }));
      if (answer.status !== 200) throw connectFailure(answer);
      return { viewer: viewerOf(answer.body), requestId: answer.header("x-request-id") };
    },
    close,
  };
}

function bodyOf({ userGroupId, name, mapping, properties }: GroupInput): JsonObject {
  return present({ user_group_id: userGroupId, name, mapping: mapping && { ...mapping }, properties });
}

/** Translates an update mask to REST: only the masked fields are in the body, and null clears a field. */
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
  const etag = answer.header("etag");
  return {
    group: {
      teamId: group["team_id"] as number,
      token: group["token"] as string,
      name: group["name"] as string,
      providedId: group["provided_id"] as string,
      properties: group["properties"] as JsonObject | null,
      tag: group["api_environment_tag"] as "Customer",
      etag: etag && (JSON.parse(etag) as string),
    },
    requestId: answer.header("x-request-id"),
  };
}

function restFailure({ status, header, body }: HttpAnswer): CallFailure {
  const error = body["error"] as { [name: string]: string } & {
    field_violations: { field: string; description: string }[];
  };
  const { code = "", reason = "", message = "", outcome, field_violations: violations } = error;
  const rest = { requestId: header("x-request-id"), status, challenge: header("www-authenticate"), outcome };
  return new CallFailure({ code, reason, violations, message }, rest);
}

type ConnectErrorBody = {
  code: string;
  message?: string;
  details?: {
    debug?: {
      reason?: string;
      metadata?: { outcome?: string };
      fieldViolations?: { field: string; description: string }[];
    };
  }[];
};

function connectFailure({ status, header, body }: HttpAnswer): CallFailure {
  const { code, message = "", details = [] } = body as unknown as ConnectErrorBody;
  const debug = details.map((detail) => detail.debug ?? {});
  const { reason = "", metadata } = debug.find((detail) => detail.reason) ?? {};
  const violations = debug.find((detail) => detail.fieldViolations)?.fieldViolations ?? [];
  const outcome = metadata?.outcome;
  const rest = { requestId: header("x-request-id"), status, challenge: header("www-authenticate"), outcome };
  return new CallFailure({ code, reason, violations, message }, rest);
}

function viewerOf(body: JsonObject): ViewerResult {
  const tag = body["apiEnvironmentTag"];
  const expireTime = body["tokenExpireTime"];
  return {
    teamId: Number(body["teamId"]),
    name: (body["name"] ?? "") as string,
    providedId: body["providedId"] as string,
    mapping: (body["mapping"] ?? {}) as Record<string, string>,
    properties: (body["properties"] ?? null) as JsonObject | null,
    tag: tag === "API_ENVIRONMENT_TAG_CUSTOMER" ? "Customer" : tag === "API_ENVIRONMENT_TAG_TESTING" ? "Testing" : null,
    expireTime: typeof expireTime === "string" ? Date.parse(expireTime) : undefined,
  };
}

function parse(bytes: Uint8Array): JsonObject {
  return JSON.parse(Buffer.from(bytes).toString("utf8")) as JsonObject;
}

function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
}
