import { checkAnswers } from "./answers.ts";
import { checkAudit } from "./audit.ts";
import { byGroup, type Call, isOk } from "./call.ts";
import { checkCreations } from "./creations.ts";
import { checkNames } from "./names.ts";
import { checkStored, type StoredEnvironment } from "./stored.ts";
import { checkTokens } from "./tokens.ts";
import { checkViewers } from "./viewers.ts";
import type { Allowances, Violation } from "./violation.ts";

/** What happened under a fault, and what was promised. */
export interface History {
  readonly calls: readonly Call[];
  /** What Redis holds when all is over. */
  readonly stored: readonly StoredEnvironment[];
  readonly allow: Allowances;
  /** Whether workers were ended, and calls to them cut off. */
  readonly workersEnd: boolean;
}

/** Everything in a history that must not be. */
export function check({ calls, stored, allow, workersEnd }: History): Violation[] {
  return [
    ...checkAnswers(calls, { workersEnd }),
    ...checkCreations(calls, allow),
    ...checkNames(calls, allow),
    ...checkTokens(calls, allow),
    ...checkViewers(calls, allow),
    ...checkAgreement(calls),
    ...stored.flatMap((environment) => checkStored(environment, calls)),
    ...stored.flatMap((environment) => checkAudit(environment, calls)),
  ];
}

/** Whether all workers show the same of each group in the end, when nothing changes any more. */
export function checkAgreement(calls: readonly Call[]): Violation[] {
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
