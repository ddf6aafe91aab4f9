import {
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  status,
  type UntypedHandleCall,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { Json, JsonObject } from "../../src/domain/user-group.ts";
import { announce, openWork, type StoredGroup } from "./work.ts";

/** A typical gRPC server with @grpc/grpc-js, @grpc/proto-loader and ioredis. */
const work = await openWork();
const definition = loadSync("usergroup/v1/user_group_service.proto", { includeDirs: ["proto"], longs: Number });
const loaded = loadPackageDefinition(definition) as unknown as {
  usergroup: { v1: { UserGroupService: { service: ServiceDefinition } } };
};

type Unary = (
  call: { metadata: { get(name: string): (string | Buffer)[] }; request: { userGroupId: string } },
  callback: (error: { code: number } | null, response?: unknown) => void,
) => void;

const getUserGroup: Unary = ({ metadata, request }, callback) => {
  work.read(metadata.get("authorization")[0] as string | undefined, request.userGroupId).then(
    (group) => callback(null, { userGroup: message(group), newUserGroup: false }),
    () => callback({ code: status.INTERNAL }),
  );
};

function message(group: StoredGroup) {
  return {
    teamId: group.teamId,
    token: group.token,
    name: group.name,
    providedId: group.providedId,
    mapping: group.mapping,
    properties: group.properties === undefined ? undefined : struct(group.properties),
    apiEnvironmentTag: 1,
    etag: group.etag,
    createTime: timestamp(group.createTime),
    updateTime: timestamp(group.updateTime),
    tokenCreateTime: timestamp(group.tokenCreateTime),
  };
}

function timestamp(ms: number) {
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 };
}

function struct(object: JsonObject): object {
  const fields: { [key: string]: object } = {};
  for (const key in object) fields[key] = value(object[key] as Json);
  return { fields };
}

function value(json: Json): object {
  if (typeof json === "string") return { stringValue: json };
  if (typeof json === "number") return { numberValue: json };
  if (typeof json === "boolean") return { boolValue: json };
  if (json === null) return { nullValue: 0 };
  return Array.isArray(json) ? { listValue: { values: json.map(value) } } : { structValue: struct(json) };
}

const server = new Server();
server.addService(loaded.usergroup.v1.UserGroupService.service, { getUserGroup: getUserGroup as UntypedHandleCall });
server.bindAsync(`${work.host}:${work.port}`, ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
  announce(work.host, work.port);
});
