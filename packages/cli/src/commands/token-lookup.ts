import { LookupUserGroupTokenResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { quoted } from "../../../operator/src/input.ts";
import { environmentsOf } from "../../../operator/src/pages.ts";
import { EXIT, Failure, isNotFound } from "../failures.ts";
import type { Clients, Session } from "../session.ts";

const AT_ONCE = 8;

/**
 * Error reasons that the service returns for an expired or revoked session. Each of these reasons proves that the
 * session belongs to the environment of the call.
 */
const ENDED = ["VIEWER_SESSION_EXPIRED", "VIEWER_SESSION_ENDED"];

/**
 * Shows the user groups of a token or viewer session. For each group, shows the command that revokes the token or
 * session. An imported token may belong to groups in several environments.
 *
 * @throws Failure if no group has the token or session
 */
export async function showGroupsOf(
  { out }: Pick<Session, "out">,
  { admin, token }: Pick<Clients, "admin"> & { readonly token: string },
): Promise<void> {
  const isOfEnvironment = (await admin.getCaller({})).environment !== undefined;
  const environments = isOfEnvironment ? [undefined] : await environmentNames(admin);
  const refusals: Failure[] = [];
  const lookUp = async (environment: EnvironmentName | undefined) => {
    try {
      return await admin.lookupUserGroupToken({ environment, token });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      refusals.push(error);
      return undefined;
    }
  };
  for (let i = 0; i < environments.length; i += AT_ONCE) {
    for (const found of await Promise.all(environments.slice(i, i + AT_ONCE).map(lookUp))) {
      if (!found?.userGroup || !found.environment) continue;
      const { userGroup, environment, session: viewerSession } = found;
      const env = formatEnvironmentName(environment);
      await out.record(LookupUserGroupTokenResponseSchema, found, [
        { label: "source", text: viewerSession ? "a viewer session" : "a user group token" },
      ]);
      const command = viewerSession ? "viewer session revoke" : "group revoke";
      out.note(`To revoke it: ugs ${command} --env ${env} -- ${quoted(userGroup.providedId)}`);
    }
  }
  if (refusals.length < environments.length) return;
  const ended = refusals.find(({ detail }) => ENDED.includes(detail.reason ?? ""));
  if (ended || environments.length === 1) throw ended ?? refusals[0];
  throw new Failure("no environment has this token: it may have expired or been revoked", { exitCode: EXIT.notFound });
}

/** Returns the names of all environments whose deletion has not begun. */
export async function environmentNames(admin: Clients["admin"]): Promise<EnvironmentName[]> {
  const environments = await environmentsOf((page) => admin.listEnvironments(page));
  return environments.map(({ name, tag }) => ({ $typeName: "usergroup.admin.v1.EnvironmentName", name, tag }));
}
