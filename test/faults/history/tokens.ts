import { byGroup, type Call, fateOf, isOk } from "./call.ts";
import { checkRegister, type Read, type Write } from "./register.ts";
import { mayBeMade, type Rotation, rotationsOf } from "./rotations.ts";
import { type Allowances, shortOf, type Violation } from "./violation.ts";

/** Whether each group had one token at a time, and each rotation one winner and one answer. */
export function checkTokens(calls: readonly Call[], allow: Allowances): Violation[] {
  const violations: Violation[] = [];
  const groups = byGroup(calls);
  const rotations = rotationsOf(calls);
  violations.push(...winnerFaults(rotations), ...answerFaults(rotations), ...sharedFaults(rotations));
  for (const [group, own] of groups) {
    const ofGroup = rotations.filter((rotation) => rotation.group === group);
    violations.push(...orderFaults(group, own, ofGroup, allow));
  }
  return violations;
}

/** A token that several rotations, under several request ids or none, were acknowledged to end. */
function winnerFaults(rotations: readonly Rotation[]): Violation[] {
  const winners = new Map<string, number>();
  for (const { from, made } of rotations) {
    if (from !== undefined && made !== undefined) winners.set(from, (winners.get(from) ?? 0) + 1);
  }
  return [...winners].flatMap(([token, count]): Violation[] =>
    count === 1 ? [] : [{ kind: "two winners", text: `${count} rotations of ${shortOf(token)} were acknowledged` }],
  );
}

/** Retries that were answered with another token or etag than the first. */
function answerFaults(rotations: readonly Rotation[]): Violation[] {
  return rotations.flatMap(({ group, attempts }): Violation[] => {
    const answers = new Set(attempts.filter(isOk).map(({ answer }) => `${answer.seen.token} ${answer.seen.etag}`));
    if (answers.size <= 1) return [];
    return [{ kind: "two answers", text: `${group}: one request id was answered with ${answers.size} rotations` }];
  });
}

/** A token that several rotations were answered with. */
function sharedFaults(rotations: readonly Rotation[]): Violation[] {
  const made = rotations.flatMap((rotation) => (rotation.made === undefined ? [] : [rotation.made]));
  return made
    .filter((token, i) => made.indexOf(token) !== i)
    .map((token) => ({ kind: "two answers", text: `several rotations were answered with ${shortOf(token)}` }));
}

function orderFaults(group: string, calls: readonly Call[], rotations: readonly Rotation[], allow: Allowances) {
  const reads = calls.flatMap((call): Read[] => {
    // A rotation that is repeated shows the token that it made, not the one that there is.
    if (!isOk(call) || call.method === "rotate" || call.answer.created) return [];
    const { token } = call.answer.seen;
    return token === undefined ? [] : [{ ...call, value: token, isFinal: call.isFinal ?? false }];
  });
  const writes = [...rotationWrites(rotations), ...creationWrites(calls)];
  const acknowledged = new Set(writes.map(({ value }) => value));
  const unknown = new Map<string, Read>();
  for (const read of reads) {
    const first = unknown.get(read.value);
    if (!acknowledged.has(read.value) && !(first && first.end <= read.end)) unknown.set(read.value, read);
  }
  const { violations, starts } = explain(group, [...unknown.values()], sourcesOf(calls, rotations, allow));
  for (const [value, start] of starts) writes.push({ value, start, end: Number.POSITIVE_INFINITY, fate: "perhaps" });
  const explained = reads.filter(({ value }) => acknowledged.has(value) || starts.has(value));
  const texts = checkRegister(`the token of ${group}`, writes, explained, allow);
  return [...violations, ...texts.map(({ kind, text }) => ({ kind, text: hidden(text) }))];
}

function rotationWrites(rotations: readonly Rotation[]): Write[] {
  const seen = new Set<string>();
  return rotations.flatMap(({ made, start, end }): Write[] => {
    if (made === undefined || seen.has(made)) return [];
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

/** When what may have made a token that nobody was answered with began. */
function sourcesOf(calls: readonly Call[], rotations: readonly Rotation[], { mayForget }: Allowances): number[] {
  const creations = calls.filter((call) => call.method === "get" && fateOf(call) === "perhaps");
  const changes = rotations.flatMap((rotation): number[] => {
    if (!mayBeMade(rotation)) return [];
    // A rotation that was forgotten is made anew by the next attempt, with another token.
    if (mayForget) return rotation.attempts.filter((call) => fateOf(call) === "perhaps").map(({ start }) => start);
    return rotation.made === undefined ? [rotation.start] : [];
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

function hidden(text: string): string {
  return text.replace(/\bug[tk]_\w+/g, shortOf);
}
