import { pages } from "@user-group-service/client";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { MAX_PAGE_SIZE } from "../../../operator/src/pages.ts";
import { EXIT, Failure } from "../failures.ts";
import { type Clients, connect, type Session } from "../session.ts";
import { type PatienceOptions, patiently } from "./patience.ts";
import { Progress } from "./progress.ts";

/**
 * A task that needs many calls, such as an import. To retry a call for several minutes, make the call with `adminOnce`
 * inside `patiently`.
 */
export interface Task extends Clients {
  readonly progress: Progress;
  /** The options of `patiently`. `progress` shows the pauses between retries. */
  readonly patience: PatienceOptions;
}

export interface Target extends Task {
  /** The environment in requests. If undefined, the service uses the environment of the API token. */
  readonly environment: EnvironmentName | undefined;
  readonly name: string;
  readonly count: number;
}

/**
 * Opens a task.
 *
 * @param what the verb in the progress line, such as `imported`
 * @throws Failure if a setting is not valid
 */
export async function openTask(session: Session, what: string): Promise<Task> {
  const { signal, stderr } = session.shell;
  const progress = new Progress(stderr, what);
  const onPause = (pauseMs: number, reason: string) => progress.pause(pauseMs, reason);
  return { ...(await connect(session)), progress, patience: { signal, onPause } };
}

/** Opens a task for an environment. @throws Failure if the environment does not exist, or if the call fails */
export async function openTarget(
  session: Session,
  environment: EnvironmentName | undefined,
  what: string,
): Promise<Target> {
  const task = await openTask(session, what);
  const found = await task.admin.getEnvironment({ environment });
  return {
    ...task,
    environment,
    name: found.environment ? formatEnvironmentName(found.environment) : "",
    count: Number(found.userGroupCount),
  };
}

/** Lists the groups of the environment page by page, sorted by id. */
export async function* groupPages({ adminOnce, environment, patience }: Target, prefix: string) {
  const list: typeof adminOnce.listUserGroups = (request) =>
    patiently(patience, () => adminOnce.listUserGroups(request));
  const request = { environment, providedIdPrefix: prefix, pageSize: MAX_PAGE_SIZE };
  for await (const { userGroups } of pages(list, request)) yield userGroups;
}

/**
 * Runs a task, and removes the progress from the terminal at the end. If the task fails, the hint of the failure
 * contains `continuation`. A failure with the exit code `EXIT.usage` or `EXIT.conflict` stays unchanged.
 */
export async function continuable<T>(
  { out, shell }: Session,
  { progress }: Task,
  continuation: string,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run().finally(() => progress.clear());
  } catch (error) {
    if (shell.signal.aborted) out.note(continuation);
    if (!(error instanceof Failure)) throw error;
    const { detail, message } = error;
    if (detail.exitCode === EXIT.usage || detail.exitCode === EXIT.conflict) throw error;
    // Do not report that a change may have been made, because the user can safely repeat the whole task.
    const hint = detail.outcome === undefined ? detail.hint : undefined;
    throw new Failure(message, {
      ...detail,
      outcome: undefined,
      hint: [hint, continuation].filter(Boolean).join("; "),
    });
  }
}
