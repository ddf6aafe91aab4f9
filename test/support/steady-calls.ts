import { Agent } from "node:http";
import { ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { http1 } from "@user-group-service/testing/http";
import { pause } from "@user-group-service/testing/wait";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { openGrpcJsTransport } from "./clients/grpc-js-transport.ts";

/** How many loops a client has; each has one call under way at a time, so that most connections have several. */
const LOOPS = 8;

/** The longest pause of a loop between two calls, in milliseconds: connections are idle for moments, and busy for others. */
const LONGEST_PAUSE_MS = 8;

/** Changes and reads groups until it is told to end, and never makes a call again that has failed. */
export interface SteadyCalls {
  /** How many were answered so far, as they should be. */
  answered(): number;
  /** What went wrong so far, and how often. */
  readonly faults: { readonly [fault: string]: number };
  /** Makes no further calls, and waits for those under way. */
  end(): Promise<void>;
}

/** Gives a group a name, and tells the name that it has. */
type NameGroup = (id: string, name: string | undefined) => Promise<string>;

/** Where a client calls, and with which API token. */
export interface Target {
  readonly url: string;
  readonly token: string;
}

/** How many there were so far: each has groups of its own. */
let clients = 0;

/** Has a client make calls from now on. */
export function beginCalls(nameGroup: NameGroup, close: () => void): SteadyCalls {
  const client = ++clients;
  let isEnding = false;
  let answered = 0;
  const faults: { [fault: string]: number } = {};
  const loop = async (i: number) => {
    const id = `steady ${client} ${i}`;
    // Makes the group.
    await nameGroup(id, undefined);
    for (let n = 0; !isEnding; n++) {
      try {
        const wrote = await nameGroup(id, `name ${n}`);
        const read = await nameGroup(id, undefined);
        if (wrote !== `name ${n}` || read !== wrote)
          throw new Error("a group does not have the name that it was given");
        answered += 2;
      } catch (error) {
        const text = String((error as Error).message);
        faults[text] = (faults[text] ?? 0) + 1;
      }
      await pause(Math.random() * LONGEST_PAUSE_MS);
    }
  };
  const loops = Array.from({ length: LOOPS }, (_, i) => loop(i));
  return {
    faults,
    answered: () => answered,
    end: async () => {
      isEnding = true;
      await Promise.all(loops);
      close();
    },
  };
}

/**
 * Makes a call again that Node's HTTP/2 client has refused by itself, as docs/operations.md says: the server told it that
 * the connection ends before it began the call.
 */
const repeatRefused: Interceptor = (next) => async (req) => {
  try {
    return await next(req);
  } catch (error) {
    if (req.stream || !ConnectError.from(error).message.includes("NGHTTP2_REFUSED_STREAM")) throw error;
    return await next(req);
  }
};

/** Calls by RPC. */
function overRpc(transport: Transport, token: string): NameGroup {
  const groups = createClient(UserGroupService, transport);
  const options = { headers: { authorization: `Token ${token}` } };
  return async (userGroupId, name) => {
    const { userGroup } =
      name === undefined
        ? await groups.getUserGroup({ userGroupId }, options)
        : await groups.updateUserGroup({ userGroupId, name }, options);
    return userGroup?.name ?? "";
  };
}

/** Calls REST over HTTP/1.1, on connections that are kept. */
function overRest(agent: Agent, { url, token }: Target): NameGroup {
  const authorization = `Token ${token}`;
  return async (id, name) => {
    const put = { "content-type": "application/json", authorization };
    const { status, body } =
      name === undefined
        ? await http1(url, `/api/user?user_group_id=${encodeURIComponent(id)}`, { agent, headers: { authorization } })
        : await http1(url, "/api/user", {
            ...{ agent, method: "PUT", headers: put },
            body: JSON.stringify({ user_group_id: id, name }),
          });
    if (status !== 200) throw new Error(`HTTP ${status}: ${body}`);
    return JSON.parse(body.toString()).user_group.name;
  };
}

/** The clients, by what they are and speak. */
export const CLIENTS: { readonly [name: string]: (target: Target) => SteadyCalls } = {
  "grpc-js": ({ url, token }) => {
    const { transport, close } = openGrpcJsTransport(url);
    return beginCalls(overRpc(transport, token), close);
  },
  "connect-node, gRPC": ({ url, token }) => {
    return beginCalls(overRpc(createGrpcTransport({ baseUrl: url, interceptors: [repeatRefused] }), token), () => {});
  },
  "connect-node, Connect over HTTP/2": ({ url, token }) => {
    return beginCalls(
      overRpc(createConnectTransport({ baseUrl: url, httpVersion: "2", interceptors: [repeatRefused] }), token),
      () => {},
    );
  },
  "connect-node, gRPC-Web over HTTP/1.1": ({ url, token }) => {
    const agent = new Agent({ keepAlive: true });
    const transport = createGrpcWebTransport({ baseUrl: url, httpVersion: "1.1", nodeOptions: { agent } });
    return beginCalls(overRpc(transport, token), () => agent.destroy());
  },
  "node:http, REST": (target) => {
    const agent = new Agent({ keepAlive: true });
    return beginCalls(overRest(agent, target), () => agent.destroy());
  },
};
