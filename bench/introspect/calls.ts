import { type Call, json } from "../calls.ts";

/** A call of this benchmark, on so many connections. */
export type IntrospectCall = Call<string> & Required<Pick<Call, "connections">>;

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

/** Of those that ask. */
export const CONNECTIONS = [100, 600];

/** The call that makes a session of a group. */
export function creation({ apiToken, groupId }: Pick<Subject, "apiToken" | "groupId">): IntrospectCall {
  const request = { userGroupId: groupId, audience: AUDIENCE, ttl: TTL };
  return {
    key: "session",
    title: "a session made, by id",
    http: 1,
    connections: 100,
    path: "/usergroup.v1.ViewerService/CreateViewerSession",
    headers: { authorization: `Token ${apiToken}`, "content-type": "application/json" },
    body: Buffer.from(JSON.stringify(request)),
    read: json,
    volatile: [],
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
    key: `${of}-${connections}`,
    title: `a ${of === "token" ? "user group token" : "viewer session"} asked for`,
    http: 1,
    connections,
    path: "/api/viewer",
    headers: { authorization: `Token ${apiToken}`, "content-type": "application/x-www-form-urlencoded" },
    body: Buffer.from(new URLSearchParams({ token: of === "token" ? userGroupToken : session }).toString()),
    read: json,
    volatile: [],
  };
}
