import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { presenting } from "./admin.ts";
import type { TestServer } from "./server.ts";

/**
 * Creates gRPC clients of a server. The clients send `token` with each call. Default: the API token of the Customer
 * environment.
 */
export function grpcClients({ url, tokens }: Pick<TestServer, "url" | "tokens">, token = tokens.customer) {
  const transport = presenting(createGrpcTransport({ baseUrl: url }), token);
  return { groups: createClient(UserGroupService, transport), viewers: createClient(ViewerService, transport) };
}

/** Returns the error of a failed call. @throws if the call succeeds */
export async function failureOf(call: Promise<unknown>): Promise<{ code: string; reason: string | undefined }> {
  const error = await call.then(
    () => expect.fail("the call succeeded"),
    (thrown: unknown) => ConnectError.from(thrown),
  );
  return { code: Code[error.code] ?? String(error.code), reason: error.findDetails(ErrorInfoSchema)[0]?.reason };
}

export function succeeds(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => true,
    () => false,
  );
}
