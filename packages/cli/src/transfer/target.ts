import { type Client, ConnectError, createClient } from "@connectrpc/connect";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { pagesOf } from "../../../operator/src/pages.ts";
import { callFailure } from "../connection/call-failure.ts";
import { openTransport } from "../connection/transport.ts";
import { EXIT, Failure } from "../failures.ts";
import { connect, type Session } from "../session.ts";
import type { Connection } from "../settings.ts";
import { type PatienceOptions, patiently } from "./patience.ts";

/** The environment of an import or export. */
export interface Target {
  /** Its calls fail with a ConnectError, without retries. */
  readonly admin: Client<typeof AdminService>;
  readonly connection: Connection;
  /** The name in requests. Undefined: the environment of the API token. */
  readonly environment: EnvironmentName | undefined;
  /** The name in messages. */
  readonly name: string;
  /** The number of its groups. */
  readonly count: number;
}

/** Creates a client whose calls fail with a ConnectError, without retries: `Patience` retries them. @throws Failure */
export async function openAdmin({ settings, shell }: Session): Promise<Pick<Target, "admin" | "connection">> {
  const [connection, token] = [await settings.connection(), await settings.token()];
  const transport = openTransport(connection, { token, signal: shell.signal, isRetrying: false, isJson: true });
  return { admin: createClient(AdminService, transport), connection };
}

/** Looks up the environment. @throws Failure if it does not exist, or the call fails */
export async function openTarget(session: Session, environment: EnvironmentName | undefined): Promise<Target> {
  const found = await (await connect(session)).admin.getEnvironment({ ...(environment && { environment }) });
  return {
    ...(await openAdmin(session)),
    environment,
    name: found.environment ? formatEnvironmentName(found.environment) : "",
    count: Number(found.userGroupCount),
  };
}

/** Lists the groups of the environment page by page, in the order of their ids. */
export function groupPages(
  { admin, environment }: Target,
  { prefix, ...patience }: PatienceOptions & { readonly prefix: string },
): AsyncGenerator<readonly UserGroupInfo[]> {
  return pagesOf(undefined, async (page) => {
    const request = { ...(environment && { environment }), providedIdPrefix: prefix, ...page };
    const { userGroups, nextPageToken } = await patiently(patience, () => admin.listUserGroups(request));
    return { items: userGroups, nextPageToken };
  });
}

/** Adds to a failure how to continue the transfer. */
export function transferFailure(error: unknown, connection: Connection, continuation: string): unknown {
  const failure = error instanceof ConnectError ? callFailure(error, connection) : error;
  if (!(failure instanceof Failure)) return failure;
  const { exitCode } = failure.detail;
  if (exitCode === EXIT.usage || exitCode === EXIT.conflict) return failure;
  const { detail, message } = failure;
  // The outcome does not matter, because a transfer is safe to repeat.
  const hint = detail.outcome === undefined ? detail.hint : undefined;
  return new Failure(message, { ...detail, outcome: undefined, hint: [hint, continuation].filter(Boolean).join("; ") });
}
