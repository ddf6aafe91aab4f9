import type { Agent } from "node:http";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { presenting } from "./admin.ts";

/** Where a client calls, and with which API token. */
export interface Target {
  readonly url: string;
  readonly token: string;
}

/** What an answer shows of a group. */
export interface SeenGroup {
  readonly teamId: number;
  readonly name: string;
  readonly token: string;
}

/** What a load of calls about groups is made by; every call throws a `GroupCallFailure` when it fails. */
export interface GroupClient {
  get(id: string): Promise<SeenGroup & { readonly isNew: boolean }>;
  /** @returns the name that the group has then */
  update(id: string, name: string): Promise<string>;
  /** @returns the token that the group has then */
  rotate(id: string, requestId: string): Promise<string>;
  /** The id of the group that has a token. */
  resolve(token: string): Promise<string>;
}

/** Why a call failed. */
export class GroupCallFailure extends Error {
  /** Whether the service says that the change was not made. */
  readonly isNotMade: boolean;

  constructor(code: string, reason = "", outcome = "") {
    super(`${code} ${reason} ${outcome}`.trim());
    this.isNotMade = outcome === "not_made";
  }
}

/** Calls by RPC. */
export function rpcGroupClient(transport: Transport, token: string): GroupClient {
  const groups = createClient(UserGroupService, presenting(transport, token));
  const viewers = createClient(ViewerService, presenting(transport, token));
  const called = <T>(call: Promise<T>) =>
    call.catch((thrown: unknown): never => {
      const error = ConnectError.from(thrown);
      const info = error.findDetails(ErrorInfoSchema)[0];
      const code = info === undefined ? error.message : (Code[error.code] ?? "").toLowerCase();
      throw new GroupCallFailure(code, info?.reason, info?.metadata["outcome"]);
    });
  return {
    async get(userGroupId) {
      const { userGroup, newUserGroup } = await called(groups.getUserGroup({ userGroupId }));
      const { teamId, name = "", token = "" } = userGroup ?? {};
      return { teamId: Number(teamId), name, token, isNew: newUserGroup };
    },
    update: async (userGroupId, name) =>
      (await called(groups.updateUserGroup({ userGroupId, name }))).userGroup?.name ?? "",
    async rotate(userGroupId, requestId) {
      const group = { case: "userGroupId", value: userGroupId } as const;
      return (await called(groups.rotateUserGroupToken({ group, requestId }))).userGroup?.token ?? "";
    },
    resolve: async (token) => (await called(viewers.resolveViewer({ token }))).providedId,
  };
}

/** Calls by REST over HTTP/1.1, on the connections of an agent. */
export function restGroupClient(agent: Agent, { url, token }: Target): GroupClient {
  const authorization = `Token ${token}`;
  const call = async <T>(method: string, target: string, fields?: object, more: { [name: string]: string } = {}) => {
    const headers = { authorization, ...(fields && { "content-type": "application/json" }), ...more };
    const sent = http1(url, target, { agent, method, headers, body: fields && JSON.stringify(fields) });
    const answer = await sent.catch((error: Error) => {
      throw new GroupCallFailure(error.message);
    });
    if (answer.status === 200) return answer.json<T>();
    const { error } = answer.json<{ error?: { reason: string; outcome?: string } }>();
    const code = answer.status === 503 ? "unavailable" : `HTTP ${answer.status}`;
    throw new GroupCallFailure(code, error?.reason, error?.outcome);
  };
  type Body = { readonly user_group: Omit<SeenGroup, "teamId"> & { readonly team_id: number } };
  return {
    async get(id) {
      const target = `/api/user?user_group_id=${encodeURIComponent(id)}`;
      const { user_group: group, ...body } = await call<Body & { readonly new_user_group: boolean }>("GET", target);
      return { teamId: group.team_id, name: group.name, token: group.token, isNew: body.new_user_group };
    },
    update: async (id, name) => (await call<Body>("PUT", "/api/user", { user_group_id: id, name })).user_group.name,
    async rotate(id, requestId) {
      const headers = { "idempotency-key": requestId };
      return (await call<Body>("POST", "/api/user", { user_group_id: id }, headers)).user_group.token;
    },
    resolve: async (text) => (await call<{ sub?: string }>("POST", "/api/viewer", { token: text })).sub ?? "nobody",
  };
}
