import { Agent } from "node:http";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { http1 } from "@user-group-service/testing/http";
import { pause } from "@user-group-service/testing/wait";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { CallTally, type Figures } from "./call-tally.ts";

const LOOPS = 8;

/** The share of turns in which a loop rotates its token, and makes another group. */
const EVERY = 4;

/** What every call may fail with while a master is replaced. */
const STORE_AWAY = /^unavailable (?:STORE_UNAVAILABLE|TOO_FEW_REPLICAS)/;

/** Calls that may fail for a while, but whose changes are kept once they are acknowledged. */
export interface AcknowledgedLoad {
  /** Tells, and prints, what was called meanwhile, what failed, and how long the longest read and change took. */
  during(name: string, work: number | (() => Promise<unknown>)): Promise<Figures>;
  /**
   * Ends the calls, and reads all that was acknowledged from every worker.
   *
   * @returns how many changes were acknowledged, and what was wrong: answers, errors, or changes that are lost
   */
  end(): Promise<{ readonly acknowledged: number; readonly wrong: readonly string[] }>;
}

/** Why a call failed. */
class CallFailure extends Error {
  /** Whether the service says that the change was not made. */
  readonly isNotMade: boolean;

  constructor(code: string, reason = "", outcome = "") {
    super(`${code} ${reason} ${outcome}`.trim());
    this.isNotMade = outcome === "not_made";
  }
}

interface Group {
  readonly name: string;
  readonly token: string;
}

/** What a loop calls; every call throws a `CallFailure` when it fails. */
interface GroupClient {
  get(id: string): Promise<Group>;
  update(id: string, name: string): Promise<void>;
  rotate(id: string, requestId: string): Promise<string>;
  /** The id of the group that has a token. */
  resolve(token: string): Promise<string>;
}

/**
 * Has loops read, rename, rotate and create groups, half of them over Connect and half over REST. Each changes its group at
 * one worker and reads it from the next.
 */
export async function beginAcknowledgedLoad(urls: readonly string[], token: string): Promise<AcknowledgedLoad> {
  const agent = new Agent({ keepAlive: true });
  const protocols = [
    urls.map((url) => connectClient(url, token)),
    urls.map((url) => restClient(agent, url, token)),
  ] as const;
  const tally = new CallTally();
  const wrong: string[] = [];
  let acknowledged = 0;
  let isEnding = false;
  const same = (what: string, read: string, possible: readonly string[]) => {
    if (!possible.includes(read)) wrong.push(`${what}: ${read} in place of ${possible.join(" or ")}`);
  };
  const tell = (error: unknown) => {
    const { message } = error as Error;
    tally.fault(message);
    if (!STORE_AWAY.test(message)) wrong.push(message);
  };
  const changed = async <T>(kind: string, call: Promise<T>) => {
    const answer = await tally.timed(call, kind);
    acknowledged++;
    return answer;
  };
  const readOf = <T>(call: Promise<T>) => tally.timed(call, "read");

  const begin = async (i: number) => {
    const clients = protocols[i % 2] as readonly GroupClient[];
    const one = clients[(i >> 1) % urls.length] as GroupClient;
    const other = clients[((i >> 1) + 1) % urls.length] as GroupClient;
    const id = `own ${i}`;
    const first = await one.get(id);
    // What it may be called: what was acknowledged last, or what was asked for since and is not known to have failed.
    let names = [first.name];
    let current = first.token;
    // The rotation that failed; it is asked for again, and until then the token may be either.
    let rotation: string | undefined;
    const made = new Map<string, string>();
    const turn = async (n: number) => {
      const name = `name ${n}`;
      try {
        await changed("update", one.update(id, name));
        names = [name];
      } catch (error) {
        if (!(error instanceof CallFailure && error.isNotMade)) names.push(name);
        tell(error);
      }
      const read = await readOf(other.get(id));
      same(`the name of ${id}`, read.name, names);
      if (rotation === undefined) {
        // What is told as wrong holds no token.
        same(`the token of ${id}`, read.token === current ? "as acknowledged" : "another", ["as acknowledged"]);
        same("whose token it is", await readOf(other.resolve(current)), [id]);
      }
      if (n % EVERY !== 0) return;
      rotation ??= crypto.randomUUID();
      current = await changed("rotate", one.rotate(id, rotation));
      rotation = undefined;
      const another = `${id} ${n}`;
      const created = await changed("create", one.get(another));
      made.set(another, created.token);
      same("whose new token it is", await readOf(other.resolve(created.token)), [another]);
    };
    const run = async () => {
      for (let n = 1; !isEnding; n++) {
        await turn(n).catch(tell);
        await pause(Math.random() * 8);
      }
    };
    const check = async () => {
      for (const client of clients) {
        const last = await client.get(id);
        same(`at the end, the name of ${id}`, last.name, names);
        if (rotation === undefined) same(`at the end, whose token it is`, await client.resolve(current), [id]);
      }
      for (const [another, text] of made) same("at the end, whose token it is", await other.resolve(text), [another]);
    };
    return { ended: run(), check };
  };
  const loops = await Promise.all(Array.from({ length: LOOPS }, (_, i) => begin(i)));
  return {
    during: (name, work) => tally.during(name, work),
    async end() {
      isEnding = true;
      await Promise.all(loops.map(({ ended }) => ended));
      await Promise.all(loops.map(({ check }) => check()));
      agent.destroy();
      return { acknowledged, wrong };
    },
  };
}

function connectClient(baseUrl: string, token: string): GroupClient {
  const transport = createConnectTransport({ baseUrl, httpVersion: "2" });
  const groups = createClient(UserGroupService, transport);
  const viewers = createClient(ViewerService, transport);
  const options = { headers: { authorization: `Token ${token}` } };
  const called = <T>(call: Promise<T>) =>
    call.catch((thrown: unknown): never => {
      const error = ConnectError.from(thrown);
      const info = error.findDetails(ErrorInfoSchema)[0];
      const code = info === undefined ? error.message : (Code[error.code] ?? "").toLowerCase();
      throw new CallFailure(code, info?.reason, info?.metadata["outcome"]);
    });
  return {
    async get(userGroupId) {
      const { userGroup } = await called(groups.getUserGroup({ userGroupId }, options));
      return { name: userGroup?.name ?? "", token: userGroup?.token ?? "" };
    },
    update: async (userGroupId, name) => void (await called(groups.updateUserGroup({ userGroupId, name }, options))),
    async rotate(userGroupId, requestId) {
      const group = { case: "userGroupId", value: userGroupId } as const;
      const { userGroup } = await called(groups.rotateUserGroupToken({ group, requestId }, options));
      return userGroup?.token ?? "";
    },
    resolve: async (text) => (await called(viewers.resolveViewer({ token: text }, options))).providedId,
  };
}

function restClient(agent: Agent, url: string, token: string): GroupClient {
  const authorization = `Token ${token}`;
  const call = async (method: string, target: string, fields?: object, more: { [name: string]: string } = {}) => {
    const headers = { authorization, ...(fields && { "content-type": "application/json" }), ...more };
    const answer = await http1(url, target, { agent, method, headers, body: fields && JSON.stringify(fields) }).catch(
      (error: Error) => {
        throw new CallFailure(error.message);
      },
    );
    if (answer.status === 200) return answer;
    const { error } = answer.json<{ error?: { reason: string; outcome?: string } }>();
    throw new CallFailure(
      answer.status === 503 ? "unavailable" : `HTTP ${answer.status}`,
      error?.reason,
      error?.outcome,
    );
  };
  const groupOf = async (answer: ReturnType<typeof call>) => (await answer).json<{ user_group: Group }>().user_group;
  return {
    get: (id) => groupOf(call("GET", `/api/user?user_group_id=${encodeURIComponent(id)}`)),
    update: async (id, name) => void (await call("PUT", "/api/user", { user_group_id: id, name })),
    rotate: async (id, requestId) =>
      (await groupOf(call("POST", "/api/user", { user_group_id: id }, { "idempotency-key": requestId }))).token,
    resolve: async (text) =>
      (await call("POST", "/api/viewer", { token: text })).json<{ sub?: string }>().sub ?? "nobody",
  };
}
