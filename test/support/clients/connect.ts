import { Agent } from "node:http";
import { fromJson, type JsonValue, type MessageShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { type CallOptions, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { BadRequestSchema, ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { ApiEnvironmentTag, type UserGroup } from "../../../gen/usergroup/v1/user_group_pb.ts";
import { UserGroupService } from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../../gen/usergroup/v1/viewer_service_pb.ts";
import type { JsonObject } from "../../../src/domain/user-group.ts";
import { openGrpcJsTransport } from "./grpc-js-transport.ts";
import { CallFailure, type CallHeaders, type GroupResult, type ServiceClient, type ViewerResult } from "./types.ts";

export interface ConnectClientOptions {
  readonly protocol: "grpc" | "grpc-web" | "connect";
  readonly httpVersion: "1.1" | "2";
  readonly binary: boolean;
  /** Whether the client compresses every request, and accepts only compressed responses. */
  readonly gzip?: boolean;
}

export function connectClient(url: string, options: ConnectClientOptions): ServiceClient {
  return clientOver(openTransport(url, options));
}

export function grpcJsClient(url: string, options: { readonly gzip?: boolean } = {}): ServiceClient {
  return clientOver(openGrpcJsTransport(url, options));
}

export function clientOver({ transport, close }: ReturnType<typeof openTransport>): ServiceClient {
  const groups = createClient(UserGroupService, transport);
  const viewers = createClient(ViewerService, transport);
  const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;
  return {
    getUserGroup: async (input, headers) => {
      const message = fromJson(getUserGroup.input, input as JsonValue);
      const { answer, requestId } = await observed(headers, (call) => groups.getUserGroup(message, call));
      return { group: groupOf(answer.userGroup), newUserGroup: answer.newUserGroup, requestId };
    },
    updateUserGroup: async (input, headers) => {
      const message = fromJson(updateUserGroup.input, input as JsonValue);
      const { answer, requestId } = await observed(headers, (call) => groups.updateUserGroup(message, call));
      return { group: groupOf(answer.userGroup), requestId };
    },
    rotateUserGroupToken: async (input, headers) => {
      const message = fromJson(rotateUserGroupToken.input, input as JsonValue);
      const { answer, requestId } = await observed(headers, (call) => groups.rotateUserGroupToken(message, call));
      return { group: groupOf(answer.userGroup), requestId };
    },
    resolveViewer: async (input, headers) => {
      const { answer, requestId } = await observed(headers, (call) => viewers.resolveViewer(input, call));
      return { viewer: viewerOf(answer), requestId };
    },
    close,
  };
}

export function openTransport(url: string, options: ConnectClientOptions): { transport: Transport; close: () => void } {
  const { protocol, httpVersion, binary, gzip } = options;
  const agent = new Agent({ keepAlive: true });
  const sessionManager = new Http2SessionManager(url);
  const common = {
    baseUrl: url,
    useBinaryFormat: binary,
    ...(gzip && { sendCompression: compressionGzip, acceptCompression: [compressionGzip], compressMinBytes: 0 }),
  };
  const http = httpVersion === "1.1" ? { httpVersion, nodeOptions: { agent } } : { httpVersion, sessionManager };
  const close = () => {
    agent.destroy();
    sessionManager.abort();
  };
  if (protocol === "connect") return { transport: createConnectTransport({ ...common, ...http }), close };
  if (protocol === "grpc-web") return { transport: createGrpcWebTransport({ ...common, ...http }), close };
  return { transport: createGrpcTransport({ ...common, sessionManager }), close };
}

async function observed<T>(headers: CallHeaders, call: (options: CallOptions) => Promise<T>) {
  let requestId: string | undefined;
  const onHeader = (received: Headers) => {
    requestId = received.get("x-request-id") ?? undefined;
  };
  try {
    return { answer: await call({ headers, onHeader }), requestId };
  } catch (error) {
    throw error instanceof ConnectError ? callFailureOf(error) : error;
  }
}

/** Converts a ConnectError to a CallFailure. @param status HTTP status, if the call was made by a REST client */
export function callFailureOf(error: ConnectError, status?: number): CallFailure {
  const violations = error.findDetails(BadRequestSchema)[0]?.fieldViolations ?? [];
  const info = error.findDetails(ErrorInfoSchema)[0];
  return new CallFailure(
    {
      code: codeToString(error.code),
      reason: info?.reason ?? "",
      violations: violations.map(({ field, description }) => ({ field, description })),
      message: error.rawMessage,
    },
    {
      requestId: error.metadata.get("x-request-id") ?? undefined,
      challenge: error.metadata.get("www-authenticate") ?? undefined,
      outcome: info?.metadata["outcome"],
      status,
    },
  );
}

export function viewerOf(answer: MessageShape<typeof ViewerService.method.resolveViewer.output>): ViewerResult {
  const { teamId, name, providedId, mapping, properties, apiEnvironmentTag, tokenExpireTime } = answer;
  return {
    teamId: Number(teamId),
    name,
    providedId,
    mapping,
    properties: (properties as JsonObject | undefined) ?? null,
    tag: tagOf(apiEnvironmentTag),
    expireTime: tokenExpireTime && timestampDate(tokenExpireTime).getTime(),
  };
}

function groupOf(group: UserGroup | undefined): GroupResult {
  if (!group) throw new Error("the response has no user_group");
  const { token, name, providedId, mapping, properties, apiEnvironmentTag, etag } = group;
  return {
    teamId: Number(group.teamId),
    token,
    name,
    providedId,
    mapping,
    properties: (properties as JsonObject | undefined) ?? null,
    tag: tagOf(apiEnvironmentTag),
    etag,
    createTime: isoOf(group.createTime),
    updateTime: isoOf(group.updateTime),
    tokenCreateTime: isoOf(group.tokenCreateTime),
  };
}

function isoOf(time: Timestamp | undefined): string | undefined {
  return time && timestampDate(time).toISOString();
}

function tagOf(tag: ApiEnvironmentTag): "Customer" | "Testing" | null {
  if (tag === ApiEnvironmentTag.CUSTOMER) return "Customer";
  return tag === ApiEnvironmentTag.TESTING ? "Testing" : null;
}
