import { type Client, ConnectError, createClient } from "@connectrpc/connect";
import { pages } from "@user-group-service/client";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { MAX_PAGE_SIZE } from "../../../operator/src/pages.ts";
import { callFailure } from "../connection/call-failure.ts";
import { openTransport } from "../connection/transport.ts";
import { EXIT, Failure } from "../failures.ts";
import { connect, type Session } from "../session.ts";
import type { Connection } from "../settings.ts";
import { type PatienceOptions, patiently } from "./patience.ts";
import { Progress } from "./progress.ts";

/** A task that needs many calls, such as an import. */
export interface Task {
  /**
   * A client that does not retry. If a call fails, the call throws a ConnectError. To retry a call, wrap the call in
   * `patiently`.
   */
  readonly admin: Client<typeof AdminService>;
  readonly connection: Connection;
  readonly progress: Progress;
  /** The options for retries. `progress` shows the pauses between retries. */
  readonly patience: PatienceOptions;
}

/** A task for the groups of one environment. */
export interface Target extends Task {
  /** The environment in requests. If undefined, the service uses the environment of the API token. */
  readonly environment: EnvironmentName | undefined;
  /** The name of the environment in messages. */
  readonly name: string;
  readonly count: number;
}

/** Opens a task. @param what the verb in the progress, such as `imported` @throws Failure if a setting is not valid */
export async function openTask({ settings, shell }: Session, what: string): Promise<Task> {
  const [connection, token] = [await settings.connection(), await settings.token()];
  const { signal } = shell;
  const transport = openTransport(connection, { token, signal, isRetrying: false, isJson: true });
  const progress = new Progress(shell.stderr, what);
  const onPause = (pauseMs: number, reason: string) => progress.pause(pauseMs, reason);
  return { admin: createClient(AdminService, transport), connection, progress, patience: { signal, onPause } };
}

/** Opens a task for an environment. @throws Failure if the environment does not exist, or if the call fails */
export async function openTarget(
  session: Session,
  environment: EnvironmentName | undefined,
  what: string,
): Promise<Target> {
  const found = await (await connect(session)).admin.getEnvironment({ environment });
  return {
    ...(await openTask(session, what)),
    environment,
    name: found.environment ? formatEnvironmentName(found.environment) : "",
    count: Number(found.userGroupCount),
  };
}

/** Lists the groups of the environment page by page, sorted by id. */
export async function* groupPages({ admin, environment, patience }: Target, prefix: string) {
  const list: typeof admin.listUserGroups = (request) => patiently(patience, () => admin.listUserGroups(request));
  const request = { environment, providedIdPrefix: prefix, pageSize: MAX_PAGE_SIZE };
  for await (const { userGroups } of pages(list, request)) yield userGroups;
}

/**
 * Runs a task, and removes the progress from the terminal at the end. If the task fails, the failure contains advice on
 * how to continue.
 */
export async function continuable<T>(
  { out, shell }: Session,
  { connection, progress }: Task,
  continuation: string,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run().finally(() => progress.clear());
  } catch (error) {
    if (shell.signal.aborted) out.note(continuation);
    const failure = error instanceof ConnectError ? callFailure(error, connection) : error;
    if (!(failure instanceof Failure)) throw failure;
    const { detail, message } = failure;
    if (detail.exitCode === EXIT.usage || detail.exitCode === EXIT.conflict) throw failure;
    // The unknown outcome of a call does not matter, because the user can safely repeat the task.
    const hint = detail.outcome === undefined ? detail.hint : undefined;
    throw new Failure(message, {
      ...detail,
      outcome: undefined,
      hint: [hint, continuation].filter(Boolean).join("; "),
    });
  }
}
