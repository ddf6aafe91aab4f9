import { type AnsweredCall, byGroup, type Call, fateOf, isDone, isOk, madeBy, sortedBy } from "./call.ts";
import { firstShown } from "./endings.ts";
import { checkRegister, type Write } from "./register.ts";
import type { Allowances, Violation } from "./violation.ts";

/**
 * Whether every group was created once and not again before it was deleted, has a team id that no other has, and neither
 * is missing before it was deleted nor there afterwards. A group that is created anew has another team id.
 */
export function checkCreations(calls: readonly Call[], allow: Allowances): Violation[] {
  const violations: Violation[] = [];
  const owners = new Map<number, string>();
  for (const [group, own] of byGroup(calls)) {
    // What was only read may have been forgotten, and its number given to another group, or to this one again.
    const told = own.filter(isOk).filter((call) => !allow.mayForget || call.answer.created || call.isFinal);
    const teamIds = new Set(told.map(teamIdOf));
    for (const teamId of teamIds) {
      const other = owners.get(teamId);
      if (other !== undefined)
        violations.push({ kind: "team id", text: `${other} and ${group} have the team id ${teamId}` });
      owners.set(teamId, group);
    }
    violations.push(...creationFaults(group, told), ...missingFaults(own, allow));
    violations.push(...betweenFaults(group, { told, own, allow }), ...undoneFaults(group, { told, own, allow }));
    violations.push(...orderFaults(group, told, allow));
  }
  return violations;
}

/** What is known of a group. */
interface Of {
  /** The calls that show what is kept. */
  readonly told: readonly AnsweredCall[];
  readonly own: readonly Call[];
  readonly allow: Allowances;
}

function creationFaults(group: string, told: readonly AnsweredCall[]): Violation[] {
  const created = told.filter(({ answer }) => answer.created).map(teamIdOf);
  if (new Set(created).size === created.length) return [];
  return [{ kind: "created twice", text: `${group} was created ${created.length} times` }];
}

/** Two team ids while nothing can have deleted the group between them, whichever was first. */
function betweenFaults(group: string, { told, own, allow }: Of): Violation[] {
  const deletions = deletionsOf(own);
  const lives = [...sortedBy(told, teamIdOf)].map(([teamId, calls]) => ({
    teamId,
    firstEnd: Math.min(...calls.map(({ end }) => end)),
    lastStart: Math.max(...calls.map((call) => readFrom(call, allow))),
  }));
  return lives.flatMap((one, i) =>
    lives.slice(0, i).flatMap((other): Violation[] => {
      const isBetween = (deletion: Call) =>
        (deletion.start < one.firstEnd && madeBy(deletion) > other.lastStart) ||
        (deletion.start < other.firstEnd && madeBy(deletion) > one.lastStart);
      if (deletions.some(isBetween)) return [];
      const text = `${group} has the team ids ${other.teamId} and ${one.teamId}, and was not deleted`;
      return [{ kind: "team id", text }];
    }),
  );
}

/** Groups that were there after a deletion which was acknowledged, and were known before it. */
function undoneFaults(group: string, { told, own, allow }: Of): Violation[] {
  const deletions = deletionsOf(own).filter(isDone);
  const first = firstShown(told, (call) => call.answer.seen?.teamId);
  return told.flatMap((call): Violation[] => {
    const teamId = teamIdOf(call);
    const known = first.get(teamId) as number;
    const deletion = deletions.find(({ start, end }) => known <= start && readFrom(call, allow) > end);
    if (!deletion) return [];
    const late = Math.round(call.start - deletion.end);
    const text = `${group}: ${call.method} showed the team id ${teamId} ${late} ms after its deletion`;
    return [{ kind: "acknowledged is lost", text }];
  });
}

/** Team ids that took turns. */
function orderFaults(group: string, told: readonly AnsweredCall[], allow: Allowances): Violation[] {
  const creations = new Map(told.filter(({ answer }) => answer.created).map((call) => [teamIdOf(call), call]));
  const writes = [...new Set(told.map(teamIdOf))].map((teamId): Write => {
    const { start = Number.NEGATIVE_INFINITY, end = Number.POSITIVE_INFINITY } = creations.get(teamId) ?? {};
    return { value: String(teamId), start, end, fate: creations.has(teamId) ? "made" : "perhaps" };
  });
  const reads = told
    .filter(({ answer }) => !answer.created)
    .map(({ start, end, isFinal = false, answer }) => ({ value: String(answer.seen.teamId), start, end, isFinal }));
  return checkRegister(`the team id of ${group}`, writes, reads, allow);
}

/** Groups that were not found after a change of them was acknowledged, though nothing can have deleted them. */
function missingFaults(own: readonly Call[], allow: Allowances): Violation[] {
  const changes = own.filter((call) => isDone(call) && (CHANGES.has(call.method) || call.answer.created));
  const deletions = deletionsOf(own);
  return own.flatMap((call): Violation[] => {
    if (call.answer.reason !== "USER_GROUP_NOT_FOUND") return [];
    const known = changes.filter(({ end }) => end < readFrom(call, allow)).map(({ start }) => start);
    if (known.length === 0) return [];
    // A retry is not answered for a group that was created anew since the first try.
    const tries = own.filter(({ requestId }) => requestId !== undefined && requestId === call.requestId);
    const last = Math.min(Math.max(...known), ...tries.map(({ start }) => start));
    if (deletions.some((deletion) => deletion.start < call.end && madeBy(deletion) > last)) return [];
    return [{ kind: "group missing", text: `${call.method} did not find ${call.group}` }];
  });
}

/** What is not done without the group being there, or makes it. */
const CHANGES: ReadonlySet<Call["method"]> = new Set(["update", "rotate", "revoke", "import"]);

/** The deletions that may have been made. */
function deletionsOf(calls: readonly Call[]): readonly Call[] {
  return calls.filter((call) => call.method === "delete" && fateOf(call) !== "not made");
}

/** From when what a call was answered may date. */
function readFrom({ start, isFinal }: Call, { staleMs }: Allowances): number {
  return start - (isFinal ? 0 : staleMs);
}

function teamIdOf({ answer }: AnsweredCall): number {
  return answer.seen.teamId;
}
