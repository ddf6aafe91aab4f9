import type { Call } from "../calls.ts";

/** A call of this benchmark: what is sent over and over. */
export interface IntrospectCall extends Omit<Call, "key" | "volatile"> {
  /** A name for files and figures. */
  readonly name: string;
  readonly connections: number;
}

/** What the calls are about. */
export interface Subject {
  readonly apiToken: string;
  readonly groupId: string;
  readonly userGroupToken: string;
  /** A viewer session, which must outlast the benchmark. */
  readonly session: string;
}

/** Whom the sessions are for. */
const AUDIENCE = "https://dashboards.example.com";

/** How long they last, in whole seconds: as long as a session can. */
const TTL = "3600s";

const CONNECTIONS = [100, 600];

/** The call that makes a session of a group. */
export function creation({ apiToken, groupId }: Pick<Subject, "apiToken" | "groupId">): IntrospectCall {
  const request = { userGroupId: groupId, audience: AUDIENCE, ttl: TTL };
  return {
    name: "create",
    title: "a session made, by id",
    http: 1,
    connections: 100,
    path: "/usergroup.v1.ViewerService/CreateViewerSession",
    headers: { authorization: `Token ${apiToken}`, "content-type": "application/json" },
    body: Buffer.from(JSON.stringify(request)),
    read: json,
  };
}

/** Every call, in the order of the table. */
export function introspectCalls(subject: Subject): readonly IntrospectCall[] {
  const asked = CONNECTIONS.flatMap((connections) => [
    introspection(subject, "token", connections),
    introspection(subject, "session", connections),
  ]);
  return [...asked, creation(subject)];
}

/** `POST /api/viewer` with a form, as RFC 7662 has it. */
function introspection(subject: Subject, of: "token" | "session", connections: number): IntrospectCall {
  const { apiToken, userGroupToken, session } = subject;
  return {
    name: `${of}-${connections}`,
    title: `a ${of === "token" ? "user group token" : "viewer session"} asked for`,
    http: 1,
    connections,
    path: "/api/viewer",
    headers: { authorization: `Token ${apiToken}`, "content-type": "application/x-www-form-urlencoded" },
    body: Buffer.from(new URLSearchParams({ token: of === "token" ? userGroupToken : session }).toString()),
    read: json,
  };
}

function json(body: Uint8Array) {
  return JSON.parse(Buffer.from(body).toString());
}
