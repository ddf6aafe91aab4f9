import type { StartSubject, SubjectServer } from "@user-group-service/testing/attacks/subject";
import { collectable } from "@user-group-service/testing/process-usage";
import { startRedis, type TestRedis } from "./redis.ts";
import { type ServerOptions, startServer, type TestServer } from "./server.ts";

/** Options of a service that a test attacks or fuzzes. */
export interface ServiceOptions extends Pick<ServerOptions, "env" | "like" | "redisUrl"> {
  /**
   * If true, `startService` starts a Redis for the service. If false, the service uses `redisUrl`, or the embedded
   * store if `redisUrl` is undefined.
   */
  readonly needsRedis?: boolean;
}

export interface Service extends TestServer, SubjectServer {
  readonly redis: TestRedis | undefined;
}

export const PATHS = {
  get: "/usergroup.v1.UserGroupService/GetUserGroup",
  update: "/usergroup.v1.UserGroupService/UpdateUserGroup",
  reflection: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
} as const;

export const startService: StartSubject<ServiceOptions, Service> = async ({ runtime, tls }, certificates, options) => {
  const { needsRedis, env, ...rest } = options ?? {};
  const { env: collector, denoFlags } = collectable(runtime);
  const redis = needsRedis ? await startRedis() : undefined;
  const server = await startServer({
    ...(redis && { redisUrl: redis.url }),
    ...rest,
    runtime,
    tls: tls ? certificates : undefined,
    // test/support/server.ts turns AUTH_FAILURE_LIMIT off. The empty value restores the default limit of the service.
    env: { AUTH_FAILURE_LIMIT: "", ...collector, ...env },
    ...(denoFlags && { denoFlags }),
  });
  const authorization = `Token ${server.tokens.customer}`;
  const body = '{"userGroupId":"bystander"}';
  return {
    ...server,
    redis,
    authorization,
    calls: {
      http1: { target: "/api/user?user_group_id=bystander", headers: { authorization } },
      http2: {
        target: PATHS.get,
        method: "POST",
        headers: { "content-type": "application/json", authorization },
        body,
      },
    },
    end: async () => {
      server.signal("SIGKILL");
      await server.exited();
      await redis?.stop();
    },
  };
};
