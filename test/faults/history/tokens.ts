import { byGroup, type Call, fateOf, isOk, madeBy } from "./call.ts";
import { type Ending, endingsOf, firstShown, mayBeMade, tokenShown } from "./endings.ts";
import { checkRegister, type Read, type Write } from "./register.ts";
import { type Allowances, shortOf, type Violation } from "./violation.ts";

/** Whether each group had one token at a time, and each rotation one winner and one answer. */
export function checkTokens(calls: readonly Call[], allow: Allowances): Violation[] {
  const violations: Violation[] = [];
  const groups = byGroup(calls);
  const endings = endingsOf(calls);
  violations.push(...winnerFaults(endings), ...answerFaults(endings), ...sharedFaults(endings));
  for (const [group, own] of groups) {
    const ofGroup = endings.filter((ending) => ending.group === group);
    violations.push(...orderFaults(group, own, ofGroup, allow), ...revokedFaults(own, ofGroup, allow));
  }
  return violations;
}

/** A token that several rotations, under several request ids or none, were acknowledged to end. */
function winnerFaults(endings: readonly Ending[]): Violation[] {
  const winners = new Map<string, number>();
  for (const { from, made } of endings) {
    if (from !== undefined && made !== undefined) winners.set(from, (winners.get(from) ?? 0) + 1);
  }
  return [...winners].flatMap(([token, count]): Violation[] =>
    count === 1 ? [] : [{ kind: "two winners", text: `${count} rotations of ${shortOf(token)} were acknowledged` }],
  );
}

/** Retries that were answered with another token than the first. */
function answerFaults(endings: readonly Ending[]): Violation[] {
  return endings.flatMap(({ group, attempts }): Violation[] => {
    const answers = new Set(attempts.filter(isOk).map(({ answer }) => answer.seen.token));
    if (answers.size <= 1) return [];
    return [{ kind: "two answers", text: `${group}: one request id was answered with ${answers.size} rotations` }];
  });
}

/** A token that several rotations were answered with. */
function sharedFaults(endings: readonly Ending[]): Violation[] {
  const made = endings.flatMap((ending) => (ending.made === undefined ? [] : [ending.made]));
  return made
    .filter((token, i) => made.indexOf(token) !== i)
    .map((token) => ({ kind: "two answers", text: `several rotations were answered with ${shortOf(token)}` }));
}

function orderFaults(group: string, calls: readonly Call[], endings: readonly Ending[], allow: Allowances) {
  const reads = readsOf(calls);
  const writes = [...endingWrites(endings), ...creationWrites(calls), ...importWrites(calls)];
  const acknowledged = new Set(writes.map(({ value }) => value));
  const unknown = new Map<string, Read>();
  for (const read of reads) {
    const first = unknown.get(read.value);
    if (!acknowledged.has(read.value) && !(first && first.end <= read.end)) unknown.set(read.value, read);
  }
  const { violations, starts } = explain(group, [...unknown.values()], sourcesOf(calls, endings, allow));
  for (const [value, start] of starts) writes.push({ value, start, end: Number.POSITIVE_INFINITY, fate: "perhaps" });
  const explained = reads.filter(({ value }) => acknowledged.has(value) || starts.has(value));
  const texts = checkRegister(`the token of ${group}`, writes, explained, allow);
  return [...violations, ...texts.map(({ kind, text }) => ({ kind, text: hidden(text) }))];
}

/** Answers that showed a token after the revocation or the deletion that ended it: what it was given instead is not told. */
function revokedFaults(calls: readonly Call[], endings: readonly Ending[], { staleMs }: Allowances): Violation[] {
  const given = firstShown(calls, tokenShown);
  const revocations = endings.filter(({ method, isMade }) => isMade && (method === "revoke" || method === "delete"));
  return readsOf(calls).flatMap((read): Violation[] => {
    const start = read.start - (read.isFinal ? 0 : staleMs);
    const ending = revocations.find((each) => (given.get(read.value) as number) <= each.start && start > each.end);
    if (!ending) return [];
    const text = `${ending.group} had the token ${shortOf(read.value)} ${Math.round(read.start - ending.end)} ms after its ${ending.method}`;
    return [{ kind: "acknowledged is lost", text }];
  });
}

/** Which token a group had. */
function readsOf(calls: readonly Call[]): Read[] {
  return calls.flatMap((call): Read[] => {
    if (!isOk(call) || call.answer.created) return [];
    const { token } = call.answer.seen;
    return token === undefined ? [] : [{ ...call, value: token, isFinal: call.isFinal ?? false }];
  });
}

function endingWrites(endings: readonly Ending[]): Write[] {
  const seen = new Set<string>();
  return endings.flatMap(({ method, made, start, end }): Write[] => {
    if (method === "import" || made === undefined || seen.has(made)) return [];
    seen.add(made);
    return [{ value: made, start, end, fate: "made" }];
  });
}

function creationWrites(calls: readonly Call[]): Write[] {
  return calls.flatMap((call): Write[] => {
    const token = call.answer.seen?.token;
    if (!call.answer.created || token === undefined) return [];
    return [{ value: token, start: call.start, end: call.end, fate: "made" }];
  });
}

/** The tokens that imports were to give, which are known beforehand. */
function importWrites(calls: readonly Call[]): Write[] {
  return calls.flatMap((call): Write[] => {
    if (call.given === undefined) return [];
    return [{ value: call.given, start: call.start, end: madeBy(call), fate: fateOf(call) }];
  });
}

/** When what may have made a token that nobody was answered with began. */
function sourcesOf(calls: readonly Call[], endings: readonly Ending[], { mayForget }: Allowances): number[] {
  const creations = calls.filter((call) => call.method === "get" && fateOf(call) === "perhaps");
  const changes = endings.flatMap(({ method, made, start, attempts }): number[] => {
    if ((method !== "rotate" && method !== "revoke") || !mayBeMade({ attempts })) return [];
    // One that was forgotten is made anew by the next attempt, with another token.
    const forgotten = mayForget ? attempts.filter((call) => fateOf(call) === "perhaps").map((call) => call.start) : [];
    if (method === "revoke" && attempts.some(isOk)) return [start, ...forgotten];
    if (mayForget) return forgotten;
    return made === undefined ? [start] : [];
  });
  return [...creations.map(({ start }) => start), ...changes].sort((a, b) => a - b);
}

/** Finds for each token that nobody was answered with something that may have made it. */
function explain(group: string, firstReads: readonly Read[], sources: readonly number[]) {
  const violations: Violation[] = [];
  const starts = new Map<string, number>();
  for (const read of [...firstReads].sort((a, b) => a.end - b.end)) {
    const possible = sources.filter((start) => start < read.end).length;
    if (possible > starts.size) starts.set(read.value, sources[0] as number);
    else {
      const text = `${group} had the token ${shortOf(read.value)}, and nothing that may have been made gave it`;
      violations.push({ kind: "not made was made", text });
    }
  }
  return { violations, starts };
}

/** A text with its tokens made short: nothing else in it is so long. */
function hidden(text: string): string {
  return text.replace(/\S{20,}/g, shortOf);
}
