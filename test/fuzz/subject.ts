import { gzipSync } from "node:zlib";
import type { Place } from "@user-group-service/testing/attacks/place";
import type { SubjectServer } from "@user-group-service/testing/attacks/subject";
import type { Certificates } from "@user-group-service/testing/certificates";
import { envelope } from "@user-group-service/testing/http";
import { startService } from "../support/subject.ts";
import { type Ask, callsOf, openCall, withAndWithout } from "./exchange.ts";

/** The API token is constant, so that the seed determines every byte. */
const API_TOKEN = "fuzz-0123456789abcdef";
const AUTHORIZATION = `Token ${API_TOKEN}`;

const ENVIRONMENT = {
  environment: "fuzz",
  tokens: { customer: API_TOKEN, testing: `${API_TOKEN}-t`, untagged: `${API_TOKEN}-u` },
};

const RPC = "/usergroup.v1.UserGroupService";
const GET = `${RPC}/GetUserGroup`;
const ID = Buffer.from("\n\u0004fuzz", "latin1");
const REST_BODY = Buffer.from('{"user_group_id":"fuzz","name":"Fuzz","properties":{"a":[1,null]}}');

/**
 * Starts the service for the fuzzer.
 *
 * @param redisUrl URL of a Redis. If undefined, the service uses the embedded store. This store keeps created groups in
 *   memory, so the fuzzer may report a leak
 */
export function startFuzzed(
  place: Place,
  certificates: Certificates,
  redisUrl: string | undefined,
): Promise<SubjectServer> {
  return startService(place, certificates, { redisUrl, like: ENVIRONMENT, env: { REDIS_TIMEOUT: "30s" } });
}

/** Returns requests with and without a valid token. The first three have a valid token. */
export function corpus(): Ask[] {
  return [...asCaller(), ...asAnyone()];
}

function asCaller(): Ask[] {
  const token = ["authorization", AUTHORIZATION] as const;
  const rest = (method: string, more: Partial<Ask>): Ask => ({
    name: `REST ${method}`,
    method,
    path: "/api/user",
    fields: [token],
    ...more,
  });
  const call = (name: string, path: string, type: string, body: Buffer) =>
    withAndWithout(AUTHORIZATION, { name, path, type, body });
  return [
    rest("GET", { path: "/api/user?user_group_id=fuzz&name=F%C3%A9" }),
    rest("PUT", { body: REST_BODY }),
    rest("PUT", { name: "REST PUT, gzip", body: gzipSync(REST_BODY), fields: [token, ["content-encoding", "gzip"]] }),
    rest("POST", {
      fields: [token, ["idempotency-key", "k1"]],
      body: Buffer.from('{"user_group_id":"fuzz","previous_token_ttl":"1s"}'),
    }),
    ...callsOf({ path: GET, proto: ID, json: '{"userGroupId":"fuzz"}', authorization: AUTHORIZATION }),
    ...call("Update", `${RPC}/UpdateUserGroup`, "application/proto", Buffer.concat([ID, Buffer.from("\x12\x01F")])),
    ...call(
      "ResolveViewer",
      "/usergroup.v1.ViewerService/ResolveViewer",
      "application/json",
      Buffer.from(`{"token":"ugt_${"0".repeat(38)}"}`),
    ),
    // The caller's role does not allow this call.
    ...call("AdminService", "/usergroup.admin.v1.AdminService/CreateApiToken", "application/proto", Buffer.of(24, 1)),
  ];
}

function asAnyone(): Ask[] {
  const health = "/grpc.health.v1.Health";
  const empty = envelope(Buffer.alloc(0));
  const reflection = envelope(Buffer.from('"\u001dusergroup.v1.UserGroupService', "latin1"));
  return [
    { name: "healthz", method: "GET", path: "/healthz", fields: [] },
    { name: "readyz", method: "HEAD", path: "/readyz", fields: [] },
    { name: "metrics", method: "GET", path: "/metrics", fields: [["accept-encoding", "gzip"]] },
    {
      name: "preflight",
      method: "OPTIONS",
      path: GET,
      fields: [
        ["origin", "https://a.example"],
        ["access-control-request-method", "POST"],
        ["access-control-request-headers", "authorization,content-type"],
      ],
    },
    openCall("Health/Check", `${health}/Check`, empty),
    { ...openCall("Health/Watch", `${health}/Watch`, empty), isEndless: true },
    {
      ...openCall("Health/Watch, Connect", `${health}/Watch`, envelope(Buffer.from("{}")), "application/connect+json"),
      isEndless: true,
    },
    {
      ...openCall(
        "reflection",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        Buffer.concat([reflection, reflection]),
        "application/grpc",
        [["grpc-accept-encoding", "br"]],
      ),
      isEndless: true,
    },
    openCall("unknown method", `${RPC}/Unknown`, envelope(ID)),
    { name: "unknown path", method: "GET", path: "/nothing", fields: [] },
  ];
}
