import { type Call, fateOf, groupOf, isOk, sortedBy } from "./call.ts";
import type { StoredEnvironment } from "./stored.ts";
import type { Violation } from "./violation.ts";

/** An event of the audit trail. */
export interface StoredEvent {
  /** The id of the call (`Call.id`). */
  readonly requestId: string;
  /** The name of the RPC. */
  readonly method: string;
  /** The id of the group in its environment. */
  readonly group: string;
}

const METHODS: { readonly [method in Call["method"]]: string | undefined } = {
  get: "GetUserGroup",
  update: "UpdateUserGroup",
  rotate: "RotateUserGroupToken",
  resolve: undefined,
};

/** Whether every acknowledged change has its audit event, and every event its change. */
export function checkAudit({ environment, events }: StoredEnvironment, all: readonly Call[]): Violation[] {
  const calls = all.filter((call) => call.environment === environment && call.id !== undefined);
  const texts = [
    ...eventFaults(environment, events, calls),
    ...changeFaults(events, calls),
    ...orderFaults(environment, events, calls),
  ];
  return texts.map((text) => ({ kind: "audit", text: `${environment}: ${text}` }));
}

/** Events that no call can have caused. */
function eventFaults(environment: string, events: readonly StoredEvent[], calls: readonly Call[]): string[] {
  const byId = new Map(calls.map((call) => [call.id, call]));
  const seen = new Set<string>();
  return events.flatMap(({ requestId, method, group }): string[] => {
    const event = `the event of ${method} of ${group} by ${requestId}`;
    const call = byId.get(requestId);
    const isTwice = seen.has(requestId);
    seen.add(requestId);
    if (!call) return [`${event} is of no call`];
    if (METHODS[call.method] !== method || call.group !== groupOf(environment, group))
      return [`${event} is of another`];
    if (isTwice) return [`${event} is there twice`];
    if (fateOf(call) === "not made") return [`${event} is there, though it was said not to be made`];
    const isRead = call.method === "get" && isOk(call) && !call.answer.created;
    return isRead ? [`${event} is there, though it found the group`] : [];
  });
}

/** Changes that were acknowledged and have no event. Retries under one request id are one rotation. */
function changeFaults(events: readonly StoredEvent[], calls: readonly Call[]): string[] {
  const audited = new Set(events.map(({ requestId }) => requestId));
  const changes = calls.filter(
    ({ method, answer }) => method === "update" || method === "rotate" || (method === "get" && answer.created),
  );
  const asked = sortedBy(changes, ({ id, group, requestId }) =>
    requestId === undefined ? id : `${group} ${requestId}`,
  );
  return [...asked.values()].flatMap((tries): string[] => {
    const [made] = tries.filter(isOk);
    if (!made) return [];
    const count = tries.filter(({ id }) => audited.has(id ?? "")).length;
    return count === 1
      ? []
      : [`${made.method} of ${made.group} by ${made.id} was acknowledged and has ${count} events`];
  });
}

/** Groups whose name in the end is not that of their last event. */
function orderFaults(environment: string, events: readonly StoredEvent[], calls: readonly Call[]): string[] {
  const byId = new Map(calls.map((call) => [call.id, call]));
  const names = new Map<string, string | undefined>();
  for (const { requestId, group } of events) {
    const value = byId.get(requestId)?.value;
    if (value !== undefined) names.set(groupOf(environment, group), value);
  }
  return calls.flatMap((call): string[] => {
    if (!call.isFinal || call.method !== "get" || !isOk(call)) return [];
    const { name } = call.answer.seen;
    const last = names.get(call.group);
    return last === name ? [] : [`${call.group} has the name ${name} in the end, and its last event is of ${last}`];
  });
}
