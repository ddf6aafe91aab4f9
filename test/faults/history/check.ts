import { checkAnswers } from "./answers.ts";
import { checkAudit } from "./audit.ts";
import { byGroup, type Call, isOk } from "./call.ts";
import { checkOrder } from "./order.ts";
import { checkStored, type StoredEnvironment } from "./stored.ts";
import type { Allowances, Violation } from "./violation.ts";

/** All calls during a fault, the stored data, and the exceptions that the fault allows. See `Allowances`. */
export interface History {
  readonly calls: readonly Call[];
  readonly stored: readonly StoredEnvironment[];
  readonly allow: Allowances;
  readonly workersEnd: boolean;
}

export function check({ calls, stored, allow, workersEnd }: History): Violation[] {
  return [
    ...checkAnswers(calls, { workersEnd }),
    ...checkOrder(calls, allow),
    ...checkTeamIds(calls, allow),
    ...checkAgreement(calls),
    ...stored.flatMap((environment) => checkStored(environment, calls)),
    ...stored.flatMap((environment) => checkAudit(environment, calls)),
  ];
}

/**
 * Checks that no two groups have the same team id. If `mayForget` is true, Redis may lose a group that only reads have
 * shown. Redis may then give the team id of the lost group to another group.
 */
function checkTeamIds(calls: readonly Call[], { mayForget }: Allowances): Violation[] {
  const owners = new Map<number, string>();
  return calls.filter(isOk).flatMap(({ group, answer, isFinal }): Violation[] => {
    if (mayForget && !answer.created && !isFinal) return [];
    const { teamId } = answer.seen;
    const owner = owners.get(teamId) ?? group;
    owners.set(teamId, owner);
    return owner === group ? [] : [{ kind: "team id", text: `${owner} and ${group} have the team id ${teamId}` }];
  });
}

/** Checks that the final reads through all workers show the same state of each group. */
function checkAgreement(calls: readonly Call[]): Violation[] {
  return [...byGroup(calls.filter(({ isFinal }) => isFinal))].flatMap(([group, own]): Violation[] => {
    const shown = new Set(
      own
        .filter(({ method }) => method === "get")
        .filter(isOk)
        .map(({ answer }) => JSON.stringify({ ...answer.seen })),
    );
    return shown.size <= 1 ? [] : [{ kind: "disagreement", text: `workers show ${shown.size} states of ${group}` }];
  });
}
