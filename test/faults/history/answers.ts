import { type Call, groupOf, isDone, isOk } from "./call.ts";
import type { Violation } from "./violation.ts";

/** Reasons of errors that a fault may cause. `checkOrder` checks whether a NOT_FOUND answer is right. */
const FORESEEN: ReadonlySet<string> = new Set([
  "STORE_UNAVAILABLE",
  "TOO_FEW_REPLICAS",
  "USER_GROUP_NOT_FOUND",
  "TOKEN_NOT_FOUND",
  "USER_GROUP_EXISTS",
  "USER_GROUP_SUSPENDED",
  "TOKEN_REPLACED",
  "TOKEN_TAKEN",
]);

/**
 * Checks each answer separately from the other calls.
 *
 * @param workersEnd true if the fault ended workers. In this case, the connection of a call may have broken
 */
export function checkAnswers(calls: readonly Call[], { workersEnd }: { readonly workersEnd: boolean }): Violation[] {
  return calls.flatMap((call) => [...groupFaults(call), ...halfFaults(call), ...errorFaults(call, workersEnd)]);
}

/** Finds answers that show another group or another environment than requested. */
function groupFaults(call: Call): Violation[] {
  if (!isOk(call)) return [];
  const shown = groupOf(call.environment, call.answer.seen.id);
  if (shown === call.group) return [];
  return [{ kind: "another's group", text: `${call.method} of ${call.group} in ${call.environment} showed ${shown}` }];
}

/** Finds answers that show only a part of a change, or a change that the call did not request. */
function halfFaults(call: Call): Violation[] {
  if (!isOk(call)) return [];
  const { method, group, value, answer } = call;
  const { name, mapped } = answer.seen;
  const isOwn = method === "update" || answer.created;
  if (name === mapped && (!isOwn || name === value)) return [];
  return [
    { kind: "torn", text: `${method} of ${group} to ${value} showed the name ${name} and the mapping of ${mapped}` },
  ];
}

function errorFaults(call: Call, workersEnd: boolean): Violation[] {
  if (isDone(call)) return [];
  const { method, group, answer, isFinal } = call;
  const { code, reason, outcome } = answer;
  const text = `${method} of ${group} failed as ${code} for ${reason ?? "no reason"}, with the outcome ${outcome ?? "unknown"}`;
  if (reason === undefined) return workersEnd ? [] : [{ kind: "unexpected", text }];
  if (!FORESEEN.has(reason) || (isFinal && code === "unavailable")) return [{ kind: "unexpected", text }];
  return isRightOutcome(call) ? [] : [{ kind: "wrong outcome", text }];
}

/**
 * Returns whether a failed call reports the right outcome. If a change fails with `unavailable`, it must report an
 * outcome. Any call may report `not_made`, even a read. The server authenticates the caller before it runs the method,
 * and the authentication can fail with this outcome.
 */
function isRightOutcome({ method, answer: { code, outcome } }: Call): boolean {
  if (code !== "unavailable") return outcome === undefined;
  if (outcome === "not_made") return true;
  return method === "resolve" ? outcome === undefined : outcome === "unknown";
}
