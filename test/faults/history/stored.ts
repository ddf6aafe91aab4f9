import type { StoredEvent } from "./audit.ts";
import { type Call, fateOf, groupOf } from "./call.ts";
import type { Violation } from "./violation.ts";

/** What Redis holds of a group. */
export interface StoredGroup {
  readonly id: string;
  readonly partition: number;
  readonly teamId: number;
  /** Digest of its token. */
  readonly digest: string;
  /** Which tokens it has: there has to be one, ours or one of another system. */
  readonly has: { readonly own: boolean; readonly foreign: boolean };
  /** Digest of the token that is on its grace. */
  readonly graceDigest: string | undefined;
}

/** What Redis holds of a partition beside its groups. */
export interface StoredPartition {
  readonly partition: number;
  /** What the index of tokens holds: the beginning of a digest to the id of a group. */
  readonly tokens: ReadonlyMap<string, string>;
  readonly ids: readonly string[];
  /**
   * The digests of tokens of other systems that lead to this partition, to the ids of the groups that may have them. One
   * whose group does not have it finds nothing.
   */
  readonly foreign: ReadonlyMap<string, string>;
  /** The digests of the tokens on their grace to the ids of groups. */
  readonly graces: ReadonlyMap<string, string>;
  /** How many team ids were handed out. */
  readonly count: number;
}

/** What Redis holds of an environment. */
export interface StoredEnvironment {
  readonly environment: string;
  readonly groups: readonly StoredGroup[];
  readonly partitions: readonly StoredPartition[];
  /** The audit events; those of one group are in their order. */
  readonly events: readonly StoredEvent[];
  /** The partition that a group of the id belongs into, or what leads to it by a digest. */
  partitionOf(id: string): number;
  /** What the index knows a token by. */
  indexed(digest: string): string;
  digestOf(token: string): string;
}

/** Whether every index agrees with the groups, both ways, and the groups with what was answered in the end. */
export function checkStored(stored: StoredEnvironment, calls: readonly Call[]): Violation[] {
  const texts = [
    ...stored.partitions.flatMap((partition) => indexFaults(stored, partition)),
    ...groupFaults(stored),
    ...finalFaults(stored, calls),
  ];
  const violations = texts.map((text): Violation => ({ kind: "index", text: `${stored.environment}: ${text}` }));
  return [...violations, ...strangerFaults(stored, calls)];
}

/** What the indexes of a partition hold and its groups do not, or the reverse. */
function indexFaults({ groups, indexed }: StoredEnvironment, partition: StoredPartition): string[] {
  const { tokens, ids, graces, count } = partition;
  const own = new Map(
    groups.filter((group) => group.partition === partition.partition).map((group) => [group.id, group]),
  );
  const faults: string[] = [];
  for (const [entry, id] of tokens) {
    const group = own.get(id);
    if (!group) faults.push(`the index of tokens names ${id}, which is not there`);
    else if (group.has.foreign || indexed(group.digest) !== entry)
      faults.push(`the index of tokens has an old token of ${id}`);
  }
  for (const [digest, id] of graces) {
    if (own.get(id)?.graceDigest !== digest) faults.push(`a grace of ${id} is not the one of its record`);
  }
  for (const { id, digest, has } of own.values()) {
    if (!has.foreign && tokens.get(indexed(digest)) !== id) faults.push(`the index of tokens lacks ${id}`);
    if (!ids.includes(id)) faults.push(`the ids lack ${id}`);
  }
  for (const id of ids) if (!own.has(id)) faults.push(`the ids name ${id}, which is not there`);
  if (count < own.size) faults.push(`partition ${partition.partition} has ${own.size} groups and has counted ${count}`);
  return faults;
}

function groupFaults({ groups, partitions, partitionOf }: StoredEnvironment): string[] {
  const faults: string[] = [];
  const foreign = new Map(partitions.map((each) => [each.partition, each.foreign]));
  const known = new Set(partitions.map(({ partition }) => partition));
  const teamIds = new Set<number>();
  const ids = new Set<string>();
  const digests = new Set<string>();
  for (const { id, partition, teamId, digest, has } of groups) {
    if (has.own === has.foreign) faults.push(`${id} has ${has.own ? "two tokens" : "no token"}`);
    if (digests.has(digest)) faults.push(`${id} has the token of another group`);
    if (has.foreign && foreign.get(partitionOf(digest))?.get(digest) !== id)
      faults.push(`nothing leads to ${id} by its token`);
    digests.add(digest);
    if (partitionOf(id) !== partition || !known.has(partition)) faults.push(`${id} is in partition ${partition}`);
    if (teamIds.has(teamId)) faults.push(`${id} has the team id ${teamId} of another group`);
    if (ids.has(id)) faults.push(`${id} is there twice`);
    teamIds.add(teamId);
    ids.add(id);
  }
  return faults;
}

/** What was answered in the end, and is not what is stored. */
function finalFaults({ environment, groups, digestOf }: StoredEnvironment, calls: readonly Call[]): string[] {
  const stored = new Map(groups.map((group) => [groupOf(environment, group.id), group]));
  return calls.flatMap(({ isFinal, method, answer, group, ...call }): string[] => {
    if (!isFinal || method !== "get" || call.environment !== environment || answer.seen?.token === undefined) return [];
    const of = stored.get(group);
    if (!of) return [`${group} was shown and is not there`];
    const isSame = of.teamId === answer.seen.teamId && of.digest === digestOf(answer.seen.token);
    return isSame ? [] : [`${group} was shown with another token or team id than it has`];
  });
}

/** Groups that no call can have created. */
function strangerFaults({ environment, groups }: StoredEnvironment, calls: readonly Call[]): Violation[] {
  const possible = new Set(
    calls.filter((call) => isCreation(call) && fateOf(call) !== "not made").map(({ group }) => group),
  );
  return groups
    .map(({ id }) => groupOf(environment, id))
    .filter((group) => !possible.has(group))
    .map((group) => ({ kind: "not made was made", text: `${group} is there, though no call can have created it` }));
}

function isCreation({ method }: Call): boolean {
  return method === "get" || method === "import";
}
