import type { StoredEvent } from "./audit.ts";
import { type Call, fateOf, groupOf } from "./call.ts";
import type { Violation } from "./violation.ts";

export interface StoredGroup {
  readonly id: string;
  readonly teamId: number;
  readonly digest: string;
  /**
   * The kinds of tokens in the group's record. A valid group has exactly one token: either a token of this service, or
   * a foreign token, which this service has not issued.
   */
  readonly has: { readonly own: boolean; readonly foreign: boolean };
  readonly graceDigest: string | undefined;
}

export interface StoredEnvironment {
  readonly environment: string;
  readonly groups: readonly StoredGroup[];
  readonly tokens: ReadonlyMap<string, string>;
  readonly ids: readonly string[];
  readonly count: number;
  /** Audit events. The events of one group are in order. */
  readonly events: readonly StoredEvent[];
  digestOf(token: string): string;
}

/** Checks that the indexes match the groups, and that the groups match the answers of the final reads. */
export function checkStored(stored: StoredEnvironment, calls: readonly Call[]): Violation[] {
  const texts = [...indexFaults(stored), ...groupFaults(stored), ...finalFaults(stored, calls)];
  const violations = texts.map((text): Violation => ({ kind: "index", text: `${stored.environment}: ${text}` }));
  return [...violations, ...impossibleGroups(stored, calls)];
}

function indexFaults({ groups, tokens, ids, count }: StoredEnvironment): string[] {
  const own = new Map(groups.map((group) => [group.id, group]));
  const faults: string[] = [];
  for (const [digest, id] of tokens) {
    const group = own.get(id);
    if (!group) faults.push(`the token index contains ${id}, which does not exist`);
    else if (group.digest !== digest && group.graceDigest !== digest)
      faults.push(`the token index contains an old token of ${id}`);
  }
  for (const { id, digest } of own.values()) {
    if (tokens.get(digest) !== id) faults.push(`the token index lacks the token of ${id}`);
    if (!ids.includes(id)) faults.push(`the list of ids lacks ${id}`);
  }
  for (const id of ids) if (!own.has(id)) faults.push(`the list of ids contains ${id}, which does not exist`);
  if (count < own.size) faults.push(`${own.size} groups exist, but only ${count} team ids were assigned`);
  return faults;
}

function groupFaults({ groups }: StoredEnvironment): string[] {
  const faults: string[] = [];
  const teamIds = new Set<number>();
  const digests = new Set<string>();
  for (const { id, teamId, digest, has } of groups) {
    if (has.own === has.foreign) faults.push(`${id} has ${has.own ? "two tokens" : "no token"}`);
    if (digests.has(digest)) faults.push(`${id} has the token of another group`);
    if (teamIds.has(teamId)) faults.push(`${id} has the team id ${teamId} of another group`);
    digests.add(digest);
    teamIds.add(teamId);
  }
  return faults;
}

/** Finds groups that differ from the answers of the final reads. */
function finalFaults({ environment, groups, digestOf }: StoredEnvironment, calls: readonly Call[]): string[] {
  const stored = new Map(groups.map((group) => [groupOf(environment, group.id), group]));
  return calls.flatMap(({ isFinal, method, answer, group, ...call }): string[] => {
    if (!isFinal || method !== "get" || call.environment !== environment || answer.seen?.token === undefined) return [];
    const of = stored.get(group);
    if (!of) return [`an answer showed ${group}, which does not exist`];
    const isSame = of.teamId === answer.seen.teamId && of.digest === digestOf(answer.seen.token);
    return isSame ? [] : [`an answer showed ${group} with another token or team id than stored`];
  });
}

function impossibleGroups({ environment, groups }: StoredEnvironment, calls: readonly Call[]): Violation[] {
  const possible = new Set(
    calls.filter((call) => isCreation(call) && fateOf(call) !== "not made").map(({ group }) => group),
  );
  return groups
    .map(({ id }) => groupOf(environment, id))
    .filter((group) => !possible.has(group))
    .map((group) => ({
      kind: "refused change was made",
      text: `${group} exists, although no call can have created it`,
    }));
}

function isCreation({ method }: Call): boolean {
  return method === "get" || method === "import";
}
