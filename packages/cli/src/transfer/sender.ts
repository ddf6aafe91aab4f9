import { Code, ConnectError } from "@connectrpc/connect";
import type { ImportUserGroupsRequest } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import {
  type ImportedUserGroup,
  type ImportResult,
  ImportResult_Outcome as Outcome,
} from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { EXIT, Failure } from "../failures.ts";
import { patiently } from "./patience.ts";
import type { Target } from "./target.ts";

export type Fate = "created" | "updated" | "unchanged" | "tokenNewer" | "suspended" | "rejected";

export interface GroupResult {
  readonly fate: Fate;
  /** The fields that the import changes in the service. */
  readonly changedFields: readonly string[];
  readonly reason?: string;
}

/** The result of each group that was imported or rejected. */
type Results = Map<ImportedUserGroup, GroupResult>;

export type ImportSettings = Omit<Partial<ImportUserGroupsRequest>, "$typeName" | "userGroups">;

/** The timeout of a request, in milliseconds. After a timeout, the sender splits the request into two halves. */
const TIMEOUT_MS = 120_000;

const FATES: { readonly [outcome in Outcome]?: Fate } = {
  [Outcome.CREATED]: "created",
  [Outcome.UPDATED]: "updated",
  [Outcome.UNCHANGED]: "unchanged",
  [Outcome.TOKEN_NEWER]: "tokenNewer",
  [Outcome.SUSPENDED]: "suspended",
};

/** A group that failed with one of these codes is sent again. */
const REPEATED: ReadonlySet<number> = new Set([Code.Unavailable, Code.DeadlineExceeded, Code.Aborted]);

export interface Sending {
  readonly target: Target;
  readonly settings: ImportSettings;
}

/**
 * Imports at most 500 groups. Retries temporary failures until each group is imported or rejected. A retry is safe,
 * because a second import of the same group changes nothing.
 *
 * @throws Failure if the service rejects the whole request, or is unavailable for longer than five minutes
 * @throws Failure if a response lacks results
 */
export async function sendGroups(groups: readonly ImportedUserGroup[], sending: Sending): Promise<Results> {
  const results: Results = new Map();
  const parts = [groups];
  for (const part of parts) {
    const left = await patiently(sending.target.patience, () => sendPart(part, results, sending));
    const half = Math.ceil(left.length / 2);
    if (half > 0) parts.push(left.slice(0, half), left.slice(half));
  }
  return results;
}

/** Sends groups until each group has a result. If the request must be split, returns the groups without a result. */
async function sendPart(groups: readonly ImportedUserGroup[], results: Results, sending: Sending) {
  for (;;) {
    const left = groups.filter((group) => !results.has(group));
    const [first] = left;
    if (!first) return [];
    try {
      await sendOnce(left, results, sending);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (rejectNamed(error, left, results)) continue;
      const { reason, cause } = error.detail;
      const isTooLarge = reason === "MESSAGE_TOO_LARGE";
      const isTooSlow = cause instanceof ConnectError && cause.code === Code.DeadlineExceeded;
      if (left.length > 1 && (isTooLarge || isTooSlow)) return left;
      if (!isTooLarge) throw error;
      results.set(first, rejected("MESSAGE_TOO_LARGE", "the group is larger than the largest request"));
    }
  }
}

/** Sends groups once. @throws Failure if the call fails, or if a group must be sent again */
async function sendOnce(
  userGroups: ImportedUserGroup[],
  results: Results,
  { target, settings }: Sending,
): Promise<void> {
  const answer = await target.adminOnce.importUserGroups({ ...settings, userGroups }, { timeoutMs: TIMEOUT_MS });
  if (answer.results.length !== userGroups.length)
    throw new Failure(`the service returned ${answer.results.length} results for ${userGroups.length} groups`, {
      exitCode: EXIT.failed,
      hint: "ask the operator whether the service has another version than this ugs, or whether a proxy alters the responses",
    });
  let again: ImportResult["failure"];
  for (const [i, group] of userGroups.entries()) {
    const { outcome, failure, changedFields } = answer.results[i] as ImportResult;
    const fate = FATES[outcome];
    if (fate) results.set(group, { fate, changedFields });
    else if (failure && REPEATED.has(failure.code)) again = failure;
    else results.set(group, rejected(failure?.reason ?? "UNKNOWN", failure?.message ?? `the outcome is ${outcome}`));
  }
  if (!again) return;
  const { message, reason } = again;
  const cause = new ConnectError(message, Code.Unavailable);
  throw new Failure(message, { exitCode: EXIT.unavailable, reason, cause });
}

/** Rejects the groups that the error of a request names. @returns false if the error names no group */
function rejectNamed({ detail }: Failure, groups: readonly ImportedUserGroup[], results: Results): boolean {
  const { reason = "", violations = [] } = detail;
  const problems = new Map<ImportedUserGroup, string[]>();
  for (const { field, description } of violations) {
    const [, index, name = ""] = /^user_groups\[(\d+)\]\.?(.*)$/.exec(field) ?? [];
    const group = groups[Number(index)];
    if (!group) return false;
    problems.set(group, [...(problems.get(group) ?? []), `${name}: ${description}`]);
  }
  for (const [group, texts] of problems) results.set(group, rejected(reason, texts.join("; ")));
  return problems.size > 0;
}

function rejected(reason: string, message: string): GroupResult {
  return { fate: "rejected", changedFields: [], reason: `${reason}: ${message}` };
}
