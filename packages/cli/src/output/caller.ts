import type { GetCallerResponse } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { formatEnvironmentName } from "../environment-name.ts";
import type { Facts } from "./output.ts";
import { endText } from "./words.ts";

/** What people are told of the bearer of a token. */
export function callerFacts({ apiTokenId, displayName, role, environment, expireTime }: GetCallerResponse): Facts {
  return [
    ["token", apiTokenId],
    ["name", displayName === apiTokenId ? undefined : displayName],
    ["role", role],
    ["environment", environment ? formatEnvironmentName(environment) : "every one, named by --env"],
    ["expires", endText(expireTime)],
  ];
}
