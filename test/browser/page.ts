import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { Health, type HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";

export interface PageTask {
  readonly baseUrl: string;
  readonly apiToken: string;
  readonly protocol: "connect" | "connect-binary" | "grpc-web";
  readonly userGroupId: string;
}

export interface PageFailure {
  readonly code: string;
  readonly reason: string | undefined;
  readonly fields: readonly string[];
  readonly requestId: string | null;
  readonly wwwAuthenticate: string | null;
  readonly message: string;
}

/** The functions that the script of the page provides. They run in the browser. */
export interface PageCalls {
  everyCall(task: PageTask): Promise<{
    readonly created: boolean;
    readonly again: boolean;
    readonly name: string;
    readonly properties: unknown;
    readonly rotated: boolean;
    readonly viewer: string;
    readonly requestIds: readonly (string | null)[];
  }>;
  unknownToken(task: PageTask): Promise<PageFailure>;
  withoutId(task: PageTask): Promise<PageFailure>;
  watchHealth(task: PageTask): Promise<Status | undefined>;
  failingGet(task: PageTask): Promise<PageFailure>;
  /** Gets the group, and returns whether the call created the group. */
  isNew(task: PageTask): Promise<boolean>;
}

const transportOf = ({ protocol, baseUrl }: PageTask): Transport => {
  if (protocol === "grpc-web") return createGrpcWebTransport({ baseUrl });
  return createConnectTransport({ baseUrl, useBinaryFormat: protocol === "connect-binary" });
};

const headersOf = ({ apiToken }: PageTask) => ({ Authorization: `Token ${apiToken}` });

async function failureOf(call: Promise<unknown>): Promise<PageFailure> {
  try {
    await call;
  } catch (failure) {
    const error = ConnectError.from(failure);
    const info = error.findDetails(ErrorInfoSchema)[0];
    const violations = error.findDetails(BadRequestSchema)[0]?.fieldViolations ?? [];
    return {
      code: Code[error.code] ?? "",
      reason: info?.reason,
      fields: violations.map(({ field }) => field),
      requestId: error.metadata.get("x-request-id"),
      wwwAuthenticate: error.metadata.get("www-authenticate"),
      message: error.rawMessage,
    };
  }
  throw new Error("the call did not fail");
}

const get = (task: PageTask) =>
  createClient(UserGroupService, transportOf(task)).getUserGroup(
    { userGroupId: task.userGroupId },
    { headers: headersOf(task) },
  );

const calls: PageCalls = {
  async everyCall(task) {
    const groups = createClient(UserGroupService, transportOf(task));
    const viewers = createClient(ViewerService, transportOf(task));
    const requestIds: (string | null)[] = [];
    const { userGroupId } = task;
    const options = {
      headers: { ...headersOf(task), "X-Request-Id": `browser-${userGroupId}` },
      onHeader: (headers: Headers) => void requestIds.push(headers.get("x-request-id")),
    };
    const first = await groups.getUserGroup({ userGroupId, name: "First" }, options);
    const again = await groups.getUserGroup({ userGroupId }, options);
    const update = { userGroupId, name: "Grüße 🎉", properties: { plan: "gold", seats: 3 } };
    const updated = await groups.updateUserGroup(update, options);
    const currentToken = first.userGroup?.token ?? "";
    const rotated = await groups.rotateUserGroupToken(
      { group: { case: "currentToken", value: currentToken } },
      options,
    );
    const token = rotated.userGroup?.token ?? "";
    const viewer = await viewers.resolveViewer({ token }, options);
    return {
      created: first.newUserGroup,
      again: again.newUserGroup,
      name: updated.userGroup?.name ?? "",
      properties: updated.userGroup?.properties,
      rotated: token !== "" && token !== currentToken,
      viewer: viewer.providedId,
      requestIds,
    };
  },
  unknownToken: (task) =>
    failureOf(
      createClient(ViewerService, transportOf(task)).resolveViewer(
        { token: "nobody-has" },
        { headers: headersOf(task) },
      ),
    ),
  withoutId: (task) => failureOf(get({ ...task, userGroupId: "" })),
  async watchHealth(task) {
    const ended = new AbortController();
    const states = createClient(Health, transportOf(task)).watch({}, { signal: ended.signal });
    try {
      for await (const { status } of states) return status;
      return undefined;
    } finally {
      ended.abort();
    }
  },
  failingGet: (task) => failureOf(get(task)),
  isNew: async (task) => (await get(task)).newUserGroup,
};

Object.assign(globalThis, { calls });
