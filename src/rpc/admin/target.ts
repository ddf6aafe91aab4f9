import { Code, type ContextValues } from "@connectrpc/connect";
import type { EnvironmentName as EnvironmentNameMessage } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import type { EnvironmentStore } from "../../domain/store.ts";
import { principalOf } from "../context.ts";
import { callError, invalidField } from "../errors.ts";
import { environmentNameFromMessage } from "./messages.ts";

/**
 * The environment that a call of AdminService acts on: that of the caller's API token, which the request need not name.
 * The bearer of `ADMIN_TOKEN` has to name one.
 *
 * @throws ConnectError InvalidArgument or PermissionDenied; EnvironmentNotFound, or as the store does
 */
export async function targetOf(
  environments: Pick<EnvironmentStore, "find">,
  values: ContextValues,
  named: EnvironmentNameMessage | undefined,
): Promise<Environment> {
  const name = targetName(values, named);
  return principalOf(values).environment ?? environments.find(name);
}

/** The name of that environment. @throws ConnectError InvalidArgument or PermissionDenied */
export function targetName(values: ContextValues, named: EnvironmentNameMessage | undefined): EnvironmentName {
  const { environment: own } = principalOf(values);
  const name = named && environmentNameFromMessage(named);
  if (own) {
    if (name && environmentPath(name) !== environmentPath(own)) throw otherEnvironment(environmentPath(own));
    return own;
  }
  if (!name) throw invalidField("environment", "must be set: ADMIN_TOKEN is bound to no environment");
  return name;
}

function otherEnvironment(own: string) {
  const message = `this API token may act on its own environment alone, ${own}; leave environment out, or use ADMIN_TOKEN`;
  return callError(Code.PermissionDenied, message, { reason: "OTHER_ENVIRONMENT" });
}
