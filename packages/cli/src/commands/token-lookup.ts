import { LookupUserGroupTokenResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { factsOf } from "../../../operator/src/fields.ts";
import { quoted } from "../../../operator/src/input.ts";
import { EXIT, Failure } from "../failures.ts";
import { pagesOf } from "../pages.ts";
import { type Clients, connect, type Session } from "../session.ts";

/** How many environments are asked at once. */
const AT_ONCE = 8;

/** Reasons of an environment that knows the viewer session. */
const ENDED = ["VIEWER_SESSION_EXPIRED", "VIEWER_SESSION_ENDED"];

/**
 * Shows the user group of a token or viewer session, and how to end it. A token of another system may be that of a group
 * in several environments: all are shown. @throws Failure when there is none
 */
export async function showGroupsOf(session: Session, token: string): Promise<void> {
  const { admin } = await connect(session);
  const environments = await environmentsOf(admin);
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
      await session.out.record(LookupUserGroupTokenResponseSchema, found, [
        { label: "source", text: viewerSession ? "a viewer session" : "a user group token" },
        ...factsOf(LookupUserGroupTokenResponseSchema, found),
      ]);
      const command = viewerSession ? "viewer session revoke" : "group revoke";
      session.out.note(`To revoke it: ugs ${command} --env ${env} -- ${quoted(userGroup.providedId)}`);
    }
  }
  if (refusals.length < environments.length) return;
  const ended = refusals.find(({ detail }) => ENDED.includes(detail.reason ?? ""));
  if (ended || environments.length === 1) throw ended ?? refusals[0];
  throw new Failure("no environment has this token: it may have ended", { exitCode: EXIT.notFound });
}

/** Whether a call failed because the thing that it names is not there. */
export function isNotFound(error: unknown): error is Failure {
  return error instanceof Failure && error.detail.exitCode === EXIT.notFound;
}

/** The environments that the caller may act on; undefined: the one of its API token. */
async function environmentsOf(admin: Clients["admin"]): Promise<(EnvironmentName | undefined)[]> {
  if ((await admin.getCaller({})).environment) return [undefined];
  const pages = pagesOf(undefined, async (page) => {
    const { environments: items, nextPageToken } = await admin.listEnvironments(page);
    return { items, nextPageToken };
  });
  const all: (EnvironmentName | undefined)[] = [];
  for await (const page of pages) {
    for (const { name, tag, deleteTime } of page)
      if (!deleteTime) all.push({ $typeName: "usergroup.admin.v1.EnvironmentName", name, tag });
  }
  return all;
}
