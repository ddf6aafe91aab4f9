import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  toBinary,
  toJson,
  toJsonString,
} from "@bufbuild/protobuf";
import { envelope } from "@user-group-service/testing/http";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";

export type CallKey = "grpcGet" | "connectGet" | "restGet" | "create" | "update" | "rotate" | "resolve";

export type Answer = { [field: string]: unknown };

/** A request that the benchmark repeats, and a parser of the answer. */
export interface Call {
  readonly key: CallKey;
  readonly title: string;
  readonly http: 1 | 2;
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  /** Request body of a POST. Undefined if the request is a GET. */
  readonly body: Uint8Array | undefined;
  /**
   * Parses the body of an answer.
   *
   * @throws if the body is not an answer to this call
   */
  readonly read: (body: Uint8Array) => Answer;
  /** Names of the group's fields whose values can differ between two answers to this call. */
  readonly volatile: readonly string[];
}

/** The tokens and group ids that the requests contain. */
export interface Subject {
  readonly apiToken: string;
  readonly readId: string;
  readonly writtenId: string;
  readonly userGroupToken: string;
}

/** Fields of the groups in the benchmark. The size of these fields is typical. */
export const GROUP_FIELDS = {
  name: "Acme Incorporated",
  mapping: { main: "ds_4f1c0a77", events: "ds_90be2d41", billing: "ds_c2a6e813" },
  properties: { plan: "enterprise", seats: 250, region: "eu-west-1", trial: false, tags: ["gold", "early"] },
};

export function calls(subject: Subject): ReadonlyMap<CallKey, Call> {
  const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;
  const read = { userGroupId: subject.readId };
  const written = { case: "userGroupId", value: subject.writtenId } as const;
  const rotating = ["etag", "updateTime", "token", "tokenCreateTime"];
  const all: Call[] = [
    grpc(subject, "grpcGet", "gRPC Get", getUserGroup, read),
    connect(subject, "connectGet", "Connect JSON Get", getUserGroup, read),
    {
      key: "restGet",
      title: "REST GET",
      http: 1,
      path: `/api/user?user_group_id=${subject.readId}`,
      headers: { authorization: `Token ${subject.apiToken}` },
      body: undefined,
      read: json,
      volatile: [],
    },
    {
      ...connect(subject, "create", "create (Connect JSON)", getUserGroup, { userGroupId: "ID", ...GROUP_FIELDS }),
      volatile: [...rotating, "teamId", "providedId", "createTime"],
    },
    grpc(
      subject,
      "update",
      "update (gRPC)",
      updateUserGroup,
      { userGroupId: subject.writtenId, name: "Acme Limited" },
      rotating,
    ),
    grpc(subject, "rotate", "rotate (gRPC)", rotateUserGroupToken, { group: written }, rotating),
    grpc(subject, "resolve", "resolve (gRPC)", ViewerService.method.resolveViewer, { token: subject.userGroupToken }),
  ];
  return new Map(all.map((call) => [call.key, call]));
}

function grpc<M extends DescMethodUnary>(
  { apiToken }: Subject,
  key: CallKey,
  title: string,
  method: M,
  request: MessageInitShape<M["input"]>,
  volatile: readonly string[] = [],
): Call {
  const message = toBinary(method.input as DescMessage, create(method.input as DescMessage, request as never));
  return {
    key,
    title,
    http: 2,
    path: pathOf(method),
    headers: { authorization: `Token ${apiToken}`, "content-type": "application/grpc", te: "trailers" },
    body: envelope(message),
    read: (body) => toJson(method.output as DescMessage, fromBinary(method.output, body.subarray(5))) as Answer,
    volatile,
  };
}

function connect<M extends DescMethodUnary>(
  { apiToken }: Subject,
  key: CallKey,
  title: string,
  method: M,
  request: MessageInitShape<M["input"]>,
): Call {
  return {
    key,
    title,
    http: 1,
    path: pathOf(method),
    headers: { authorization: `Token ${apiToken}`, "content-type": "application/json" },
    body: Buffer.from(toJsonString(method.input as DescMessage, create(method.input as DescMessage, request as never))),
    read: json,
    volatile: [],
  };
}

export function json(body: Uint8Array): Answer {
  return JSON.parse(Buffer.from(body).toString());
}

function pathOf(method: DescMethodUnary): string {
  return `/${method.parent.typeName}/${method.name}`;
}
