import { fileURLToPath } from "node:url";
import {
  type ChannelCredentials,
  type Client,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";
import type { Json, JsonObject } from "../../../src/domain/user-group.ts";
import { CallFailure, type CallHeaders, type GroupResult, type ServiceClient } from "./types.ts";

const folder = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

const definition = loadSync(
  ["usergroup/v1/user_group_service.proto", "usergroup/v1/viewer_service.proto", "google/rpc/error_details.proto"],
  { includeDirs: [folder("proto"), folder("node_modules/google-proto-files")], longs: String, enums: String },
);
const statusDefinition = loadSync("google/rpc/status.proto", {
  includeDirs: [folder("node_modules/google-proto-files")],
});

type Fields = { [name: string]: unknown };
type Callback = (error: ServiceError | null, answer?: Fields) => void;
type UnaryFn = (
  input: Fields,
  metadata: Metadata,
  callback: Callback,
) => { on: (event: "metadata", listener: (metadata: Metadata) => void) => void };
type StubClass = new (address: string, channel: ChannelCredentials, options: object) => Client;

/** A client of `@grpc/grpc-js` and protobufjs: it shares no code with the server. */
export function grpcJsClient(url: string, { gzip = false } = {}): ServiceClient {
  const loaded = loadPackageDefinition(definition) as unknown as {
    usergroup: { v1: { UserGroupService: StubClass; ViewerService: StubClass } };
  };
  const { UserGroupService, ViewerService } = loaded.usergroup.v1;
  // 2 is gzip (https://github.com/grpc/grpc/blob/master/doc/compression.md).
  const options = gzip ? { "grpc.default_compression_algorithm": 2 } : {};
  const { host } = new URL(url);
  const groups = new UserGroupService(host, credentials.createInsecure(), options);
  const viewers = new ViewerService(host, credentials.createInsecure(), options);
  return {
    getUserGroup: async (input, headers) => {
      const { answer, requestId } = await call(groups, "getUserGroup", groupFields(input), headers);
      return { group: groupOf(answer["userGroup"]), newUserGroup: answer["newUserGroup"] === true, requestId };
    },
    updateUserGroup: async ({ updateMask, ...input }, headers) => {
      const fields = {
        ...groupFields(input),
        ...(updateMask !== undefined && { updateMask: { paths: updateMask.split(",") } }),
      };
      const { answer, requestId } = await call(groups, "updateUserGroup", fields, headers);
      return { group: groupOf(answer["userGroup"]), requestId };
    },
    rotateUserGroupToken: async ({ previousTokenTtl, ...input }, headers) => {
      const fields = {
        ...input,
        ...(previousTokenTtl !== undefined && { previousTokenTtl: duration(previousTokenTtl) }),
      };
      const { answer, requestId } = await call(groups, "rotateUserGroupToken", fields, headers);
      return { group: groupOf(answer["userGroup"]), requestId };
    },
    resolveViewer: async (input, headers) => {
      const { answer, requestId } = await call(viewers, "resolveViewer", { ...input }, headers);
      const { teamId, name, providedId, mapping, tag, properties } = commonOf(answer);
      const end = answer["tokenExpireTime"];
      const expireTime = end ? Date.parse(isoOf(end)) : undefined;
      return { viewer: { teamId, name, providedId, mapping, properties, tag, expireTime }, requestId };
    },
    close: () => {
      groups.close();
      viewers.close();
    },
  };
}

function call(client: Client, method: string, input: Fields, headers: CallHeaders) {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  let requestId: string | undefined;
  return new Promise<{ answer: Fields; requestId: string | undefined }>((resolve, reject) => {
    const unary = (client as unknown as Record<string, UnaryFn>)[method] as UnaryFn;
    const started = unary.call(client, input, metadata, (error, answer) => {
      try {
        if (error) throw failure(error, requestId);
        resolve({ answer: answer ?? {}, requestId });
      } catch (failed) {
        reject(failed);
      }
    });
    started.on("metadata", (received) => {
      requestId = received.get("x-request-id")[0]?.toString();
    });
  });
}

function failure(error: ServiceError, requestId: string | undefined): CallFailure {
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  const { message, details } = bytes === undefined ? { details: [] } : statusOf(bytes as Buffer);
  const violations = (details.find((detail) => detail["fieldViolations"])?.["fieldViolations"] ?? []) as Fields[];
  const name = status[error.code] ?? "";
  return new CallFailure(
    {
      code: name === "CANCELLED" ? "canceled" : name.toLowerCase(),
      reason: String(details.find((detail) => detail["reason"])?.["reason"] ?? ""),
      violations: violations.map(({ field, description }) => ({
        field: String(field),
        description: String(description),
      })),
      message: message ?? error.details,
    },
    {
      requestId: error.metadata.get("x-request-id")[0]?.toString() ?? requestId,
      challenge: error.metadata.get("www-authenticate")[0]?.toString(),
    },
  );
}

/** `google.rpc.Status`: its message is as it was written, the one of the trailer is percent-encoded. */
function statusOf(bytes: Buffer): { message?: string; details: Fields[] } {
  type Status = { message?: string; details?: Fields[] };
  const { message, details = [] } = decode(statusDefinition, "google.rpc.Status", bytes) as Status;
  const known = details.flatMap((any) => {
    const typeUrl = String(any["type_url"] ?? any["typeUrl"]);
    const type = typeUrl.slice(typeUrl.lastIndexOf("/") + 1);
    // Of what it does not know, such as protovalidate's own detail, a client makes nothing.
    return definition[type] ? [decode(definition, type, any["value"] as Buffer)] : [];
  });
  return { message, details: known };
}

function decode(from: typeof definition, type: string, bytes: Buffer): Fields {
  return (from[type] as MessageTypeDefinition<Fields, Fields>).deserialize(bytes) as Fields;
}

function groupFields({ properties, ...input }: { readonly properties?: JsonObject }): Fields {
  return { ...input, ...(properties !== undefined && { properties: protoStruct(properties) }) };
}

function groupOf(value: unknown): GroupResult {
  const group = value as Fields;
  return {
    ...commonOf(group),
    token: String(group["token"]),
    etag: String(group["etag"]),
    createTime: isoOf(group["createTime"]),
    updateTime: isoOf(group["updateTime"]),
    tokenCreateTime: isoOf(group["tokenCreateTime"]),
  };
}

function commonOf(message: Fields) {
  const tag = message["apiEnvironmentTag"];
  return {
    teamId: Number(message["teamId"]),
    name: String(message["name"] ?? ""),
    providedId: String(message["providedId"]),
    mapping: (message["mapping"] ?? {}) as Record<string, string>,
    properties: message["properties"] ? objectOf(message["properties"]) : null,
    tag: tag === "API_ENVIRONMENT_TAG_CUSTOMER" ? "Customer" : tag === "API_ENVIRONMENT_TAG_TESTING" ? "Testing" : null,
  } as const;
}

function isoOf(value: unknown): string {
  const { seconds = 0, nanos = 0 } = value as { seconds?: string; nanos?: number };
  return new Date(Number(seconds) * 1000 + nanos / 1e6).toISOString();
}

function duration(text: string): Fields {
  const value = Number(text.replace(/s$/, ""));
  const seconds = Math.trunc(value);
  return { seconds, nanos: Math.round((value - seconds) * 1e9) };
}

function protoStruct(object: JsonObject): Fields {
  return { fields: Object.fromEntries(Object.entries(object).map(([key, value]) => [key, protoValue(value)])) };
}

function protoValue(value: Json): Fields {
  if (value === null) return { nullValue: 0 };
  if (Array.isArray(value)) return { listValue: { values: value.map(protoValue) } };
  if (typeof value === "object") return { structValue: protoStruct(value) };
  if (typeof value === "string") return { stringValue: value };
  return typeof value === "number" ? { numberValue: value } : { boolValue: value };
}

function objectOf(struct: unknown): JsonObject {
  const { fields = {} } = struct as { fields?: { [key: string]: Fields } };
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, jsonOf(value)]));
}

function jsonOf(value: Fields): Json {
  if ("structValue" in value) return objectOf(value["structValue"]);
  if ("listValue" in value) return ((value["listValue"] as { values?: Fields[] }).values ?? []).map(jsonOf);
  if ("stringValue" in value) return String(value["stringValue"]);
  if ("numberValue" in value) return Number(value["numberValue"]);
  return "boolValue" in value ? Boolean(value["boolValue"]) : null;
}
