import { byGroup, type Call, isOk } from "./call.ts";
import type { Allowances, Violation } from "./violation.ts";

/** Whether every group was created once, and has a team id that no other has. */
export function checkCreations(calls: readonly Call[], { mayForget }: Allowances): Violation[] {
  const violations: Violation[] = [];
  const owners = new Map<number, string>();
  for (const [group, own] of byGroup(calls)) {
    const created = own.filter(({ answer }) => answer.created);
    if (created.length > 1) {
      violations.push({ kind: "created twice", text: `${group} was created ${created.length} times` });
    }
    // What was only read may have been forgotten, and its number given to another group.
    const told = mayForget ? own.filter((call) => call.answer.created || call.isFinal) : own;
    const teamIds = new Set(told.filter(isOk).map(({ answer }) => answer.seen.teamId));
    if (teamIds.size > 1) {
      violations.push({ kind: "team id", text: `${group} has the team ids ${[...teamIds].join(", ")}` });
    }
    for (const teamId of teamIds) {
      const other = owners.get(teamId);
      if (other !== undefined)
        violations.push({ kind: "team id", text: `${other} and ${group} have the team id ${teamId}` });
      owners.set(teamId, group);
    }
  }
  return violations;
}
