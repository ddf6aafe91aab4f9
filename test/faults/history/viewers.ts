import { byGroup, type Call, isOk } from "./call.ts";
import { mayBeMade, type Rotation, rotationsOf } from "./rotations.ts";
import { type Allowances, shortOf, type Violation } from "./violation.ts";

/** Whether tokens were taken as long as they were valid, and no longer. */
export function checkViewers(calls: readonly Call[], allow: Allowances): Violation[] {
  const rotations = rotationsOf(calls);
  return [...byGroup(calls)].flatMap(([group, own]) => {
    const ofGroup = rotations.filter((rotation) => rotation.group === group);
    return [...endedFaults(own, ofGroup, allow), ...refusedFaults(own, ofGroup, allow)];
  });
}

/** Tokens that were taken after a rotation which was acknowledged had ended them, and their grace was over. */
function endedFaults(calls: readonly Call[], rotations: readonly Rotation[], { staleMs }: Allowances): Violation[] {
  const given = firstSeen(calls);
  return calls.flatMap((call): Violation[] => {
    const { token, group, method } = call;
    if (method !== "resolve" || token === undefined || !isOk(call)) return [];
    const start = call.start - (call.isFinal ? 0 : staleMs);
    const ending = rotations.find(
      ({ made, end, graceMs, ...rotation }) =>
        made !== undefined && (given.get(token) ?? Number.POSITIVE_INFINITY) <= rotation.start && start > end + graceMs,
    );
    if (!ending) return [];
    const late = Math.round(call.start - ending.end - ending.graceMs);
    return [{ kind: "ended token", text: `${group}: ${shortOf(token)} was taken ${late} ms after its end` }];
  });
}

/** Tokens that were refused though they were acknowledged and nothing can have ended them. */
function refusedFaults(calls: readonly Call[], rotations: readonly Rotation[], { staleMs }: Allowances): Violation[] {
  const acknowledged = new Map<string, { end: number; by: unknown; start: number }>();
  for (const rotation of rotations) {
    if (rotation.made !== undefined) acknowledged.set(rotation.made, { ...rotation, by: rotation });
  }
  for (const call of calls) {
    const token = call.answer.seen?.token;
    if (call.answer.created && token !== undefined) acknowledged.set(token, { ...call, by: call });
  }
  return calls.flatMap((call): Violation[] => {
    const { token, group } = call;
    if (token === undefined || call.answer.reason !== "TOKEN_NOT_FOUND" || !group.startsWith(`${call.environment}/`)) {
      return [];
    }
    const source = acknowledged.get(token);
    if (!source || source.end > call.start - (call.isFinal ? 0 : staleMs)) return [];
    const isEnded = rotations.some(
      (rotation) =>
        rotation !== source.by &&
        !rotation.attempts.includes(call) &&
        mayBeMade(rotation) &&
        rotation.start < call.end &&
        rotation.end > source.start,
    );
    if (isEnded) return [];
    return [
      { kind: "token refused", text: `${group}: ${shortOf(token)} was refused to ${call.method}, though it is valid` },
    ];
  });
}

/** When each token was first shown by an answer. */
function firstSeen(calls: readonly Call[]): ReadonlyMap<string, number> {
  const given = new Map<string, number>();
  for (const { answer, end } of calls) {
    const token = answer.seen?.token;
    if (token !== undefined) given.set(token, Math.min(end, given.get(token) ?? end));
  }
  return given;
}
