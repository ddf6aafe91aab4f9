import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { TestServer } from "./server.ts";
import { pause } from "./wait.ts";

/**
 * Makes calls again that the server refused before they began. A server that lags takes fewer of them at once than its
 * clients know, and connect-node leaves it to callers to try again.
 */
const tryRefusedAgain: Interceptor = (next) => async (req) => {
  for (;;) {
    try {
      return await next(req);
    } catch (error) {
      if (req.stream || !String(error).includes("NGHTTP2_REFUSED_STREAM")) throw error;
    }
    await pause(20);
  }
};

/** gRPC clients of a server, with the API token of one of its environments. */
export function grpcClients({ url, tokens }: Pick<TestServer, "url" | "tokens">, token = tokens.customer) {
  const transport = createGrpcTransport({
    baseUrl: url,
    interceptors: [
      tryRefusedAgain,
      (next) => (req) => {
        req.header.set("Authorization", `Token ${token}`);
        return next(req);
      },
    ],
  });
  return { groups: createClient(UserGroupService, transport), viewers: createClient(ViewerService, transport) };
}

/** The error that a call fails with. @throws when it does not fail */
export async function failureOf(call: Promise<unknown>): Promise<{ code: string; reason: string | undefined }> {
  const error = await call.then(
    () => expect.fail("the call was answered"),
    (thrown: unknown) => ConnectError.from(thrown),
  );
  return { code: Code[error.code] ?? String(error.code), reason: error.findDetails(ErrorInfoSchema)[0]?.reason };
}
