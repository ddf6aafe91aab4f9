import { type Call, fateOf, groupOf, isDone, isOk, sortedBy } from "./call.ts";
import type { StoredEnvironment } from "./stored.ts";
import type { Violation } from "./violation.ts";

export interface StoredEvent {
  /** `Call.id` of the call that made the change. */
  readonly requestId: string;
  readonly method: string;
  readonly group: string;
}

const METHODS: { readonly [method in Call["method"]]: string | undefined } = {
  get: "GetUserGroup",
  update: "UpdateUserGroup",
  rotate: "RotateUserGroupToken",
  resolve: undefined,
  delete: "DeleteUserGroup",
  revoke: "RevokeUserGroupTokens",
  import: "ImportUserGroups",
  suspend: "SuspendUserGroup",
  resume: "ResumeUserGroup",
};

/** Checks that every acknowledged change has an audit event, and that every event belongs to a change. */
export function checkAudit({ environment, events }: StoredEnvironment, all: readonly Call[]): Violation[] {
  const calls = all.filter((call) => call.environment === environment && call.id !== undefined);
  const texts = [
    ...eventFaults(environment, events, calls),
    ...changeFaults(environment, events, calls),
    ...orderFaults(environment, events, calls),
  ];
  return texts.map((text) => ({ kind: "audit", text: `${environment}: ${text}` }));
}

function eventFaults(environment: string, events: readonly StoredEvent[], calls: readonly Call[]): string[] {
  const byName = new Map(calls.map((call) => [nameOf(call), call]));
  const seen = new Set<string>();
  return events.flatMap((each): string[] => {
    const { requestId, method, group } = each;
    const event = `the event of ${method} of ${group} by ${requestId}`;
    const name = nameOf(callOf(environment, each));
    const call = byName.get(name);
    const isTwice = seen.has(name);
    seen.add(name);
    if (!call) return [`${event} belongs to no call`];
    if (METHODS[call.method] !== method) return [`${event} has another method than its call`];
    if (isTwice) return [`${event} exists twice`];
    if (fateOf(call) === "not made") return [`${event} exists, although the call reported not_made`];
    const isRead = call.method === "get" && isOk(call) && !call.answer.created;
    return isRead ? [`${event} exists, although the call created no group`] : [];
  });
}

/**
 * Finds acknowledged changes that do not have exactly one event. Calls with the same request id count as one change. If
 * the group was deleted between two calls with the same request id, these calls count as two changes. Ignores resumes,
 * because the resume of an active group succeeds without a change.
 */
function changeFaults(environment: string, events: readonly StoredEvent[], calls: readonly Call[]): string[] {
  const changes = calls.filter(({ method, answer }) =>
    method === "get" ? answer.created : METHODS[method] !== undefined && method !== "resume",
  );
  const requested = sortedBy(changes, (call) =>
    call.requestId === undefined ? nameOf(call) : `${call.group} ${call.requestId}`,
  );
  const ofGroup = sortedBy(events, ({ group }) => groupOf(environment, group));
  return [...requested.values()].flatMap((tries): string[] => {
    const made = tries.find(isDone);
    if (!made) return [];
    const names = new Set(tries.map(nameOf));
    const isOwn = (event: StoredEvent) => names.has(nameOf(callOf(environment, event)));
    const lives = (ofGroup.get(made.group) ?? []).filter((event) => isOwn(event) || event.method === METHODS.delete);
    const count = lives.filter(isOwn).length;
    const isRepeated = lives.some((event, i) => isOwn(event) && i > 0 && isOwn(lives[i - 1] as StoredEvent));
    return count > 0 && !isRepeated
      ? []
      : [`${made.method} of ${made.group} by ${made.id} was acknowledged, but has ${count} events`];
  });
}

/** Finds groups with a wrong final name. The right name is in the change that belongs to the last event. */
function orderFaults(environment: string, events: readonly StoredEvent[], calls: readonly Call[]): string[] {
  const byName = new Map(calls.map((call) => [nameOf(call), call]));
  const names = new Map<string, string | undefined>();
  for (const event of events) {
    const name = nameOf(callOf(environment, event));
    const call = byName.get(name);
    if (call?.value !== undefined || call?.method === "delete") names.set(call.group, call.value);
  }
  return calls.flatMap((call): string[] => {
    if (!call.isFinal || call.method !== "get" || !isOk(call)) return [];
    const { name } = call.answer.seen;
    const last = names.get(call.group);
    return last === name ? [] : [`${call.group} has the final name ${name}, but its last event set ${last}`];
  });
}

/** Returns the key by which a call and its event are matched. An import of several groups has one event per group. */
function nameOf({ id, group }: Pick<Call, "id" | "group">): string {
  return `${id} ${group}`;
}

function callOf(environment: string, { requestId, group }: StoredEvent): Pick<Call, "id" | "group"> {
  return { id: requestId, group: groupOf(environment, group) };
}
