import { byGroup, type Call, fateOf, isOk } from "./call.ts";
import { type Ending, endingsOf, firstShown, mayBeMade, tokenShown } from "./endings.ts";
import { type Allowances, shortOf, type Violation } from "./violation.ts";

/** Whether tokens were taken as long as they were valid, and no longer. */
export function checkViewers(calls: readonly Call[], allow: Allowances): Violation[] {
  const endings = endingsOf(calls);
  return [...byGroup(calls)].flatMap(([group, own]) => {
    const ofGroup = endings.filter((ending) => ending.group === group);
    return [...endedFaults(own, ofGroup, allow), ...refusedFaults(own, ofGroup, allow), ...neverGivenFaults(own)];
  });
}

/** Tokens that were taken after something which was acknowledged had ended them, and their grace was over. */
function endedFaults(calls: readonly Call[], endings: readonly Ending[], { staleMs }: Allowances): Violation[] {
  const given = firstShown(calls, tokenShown);
  return calls.flatMap((call): Violation[] => {
    const { token, group, method } = call;
    if (method !== "resolve" || token === undefined || !isOk(call)) return [];
    const start = call.start - (call.isFinal ? 0 : staleMs);
    const ending = endings.find(
      ({ isMade, end, graceMs, ...each }) =>
        isMade && (given.get(token) ?? Number.POSITIVE_INFINITY) <= each.start && start > end + graceMs,
    );
    if (!ending) return [];
    const late = Math.round(call.start - ending.end - ending.graceMs);
    return [{ kind: "ended token", text: `${group}: ${shortOf(token)} was taken ${late} ms after its end` }];
  });
}

/** Tokens that were refused though they were acknowledged and nothing can have ended them. */
function refusedFaults(calls: readonly Call[], endings: readonly Ending[], { staleMs }: Allowances): Violation[] {
  const acknowledged = new Map<string, { end: number; by: unknown; start: number }>();
  for (const ending of endings) {
    if (ending.made !== undefined) acknowledged.set(ending.made, { ...ending, by: ending });
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
    const isEnded = endings.some(
      (ending) =>
        ending !== source.by &&
        !ending.attempts.includes(call) &&
        mayBeMade(ending) &&
        ending.start < call.end &&
        ending.end > source.start,
    );
    if (isEnded) return [];
    return [
      { kind: "token refused", text: `${group}: ${shortOf(token)} was refused to ${call.method}, though it is valid` },
    ];
  });
}

/** Tokens that were taken though no import that was to give them was made. */
function neverGivenFaults(calls: readonly Call[]): Violation[] {
  const unmade = new Set(calls.filter((call) => fateOf(call) === "not made").map(({ given }) => given));
  return calls
    .filter(({ method, token, ...call }) => method === "resolve" && call.answer.seen && token && unmade.has(token))
    .map(({ group, token = "" }) => ({ kind: "not made was made", text: `${group}: ${shortOf(token)} was taken` }));
}
