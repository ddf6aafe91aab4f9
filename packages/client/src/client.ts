import { randomUUID } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { clone } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../../gen/usergroup/v1/viewer_service_pb.ts";
import { connectionFaultOf, type TlsHints, wordsOfFault } from "./connection-faults.ts";
import { failureDetails } from "./failure.ts";
import { withRequestIds } from "./request-id.ts";
import { retrying } from "./retry.ts";
import { presentingToken, type TokenSource } from "./token.ts";

/** How long a call may take, its tries and pauses together, in milliseconds. */
export const DEFAULT_TIMEOUT_MS = 10_000;

/** How many HTTP/1.1 connections are open at once; further calls wait for one. */
const MAX_CONNECTIONS = 100;

/** The largest answer, in bytes: a page of groups has a few MiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Where the service is, and who calls. */
export interface ClientOptions {
  /** Such as `https://groups.example.com`, perhaps with a path. */
  readonly url: string | URL;
  /** The API token, or a function that gives it. */
  readonly token: TokenSource;
  /** How long a call may take, its tries and pauses together, in milliseconds. A call may have its own. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Whether what failed and may be repeated is tried again. Default: true. */
  readonly retry?: boolean;
  /** Certificates in PEM, where the service needs others than the system's. */
  readonly tls?: {
    /** The authorities that its certificate must be of. */
    readonly ca?: string | Buffer;
    /** The client's certificate. */
    readonly cert?: string | Buffer;
    /** Its key. */
    readonly key?: string | Buffer;
  };
  /** The agent of `node:http` or `node:https` to use in place of the client's own, such as for a proxy. Not with `tls`. */
  readonly agent?: HttpAgent;
  /** Called around each try, token included, such as to count or trace tries. The first one is the outermost. */
  readonly interceptors?: readonly Interceptor[];
}

/** The services of a User Group Service. Calls fail with `ConnectError`; `reasonOf` says why. */
export interface UserGroupServiceClient {
  /** Gets, updates and rotates user groups. */
  readonly userGroups: Client<typeof UserGroupService>;
  /** Makes viewer sessions, and says whom tokens and sessions stand for. */
  readonly viewers: Client<typeof ViewerService>;
  /** Environments, API tokens, audit: with API tokens of role `admin`, or `ADMIN_TOKEN`. */
  readonly admin: Client<typeof AdminService>;
  /** Ends the connections; calls that are under way fail. */
  close(): void;
}

/**
 * Makes a client of the service. It keeps connections: make one, and use it for everything.
 *
 * @throws TypeError when the URL or the token cannot be right
 */
export function createUserGroupServiceClient(options: ClientOptions): UserGroupServiceClient {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, retry = true, tls = {} } = options;
  const url = urlOf(options.url);
  if (!(timeoutMs > 0)) throw new TypeError(`timeoutMs must be a positive number of milliseconds, not ${timeoutMs}`);
  for (const [name, pem] of Object.entries(tls))
    if (pem !== undefined && !String(pem).includes("-----BEGIN "))
      throw new TypeError(`tls.${name} must be what a file in PEM has in it, such as readFileSync(path), not its path`);
  if (options.agent && options.tls) throw new TypeError("give the certificates of tls to your agent");
  const Agent = url.protocol === "https:" ? HttpsAgent : HttpAgent;
  const agent = options.agent ?? new Agent({ ...tls, keepAlive: true, maxSockets: MAX_CONNECTIONS });
  const transport = createConnectTransport({
    baseUrl: url.href,
    // Over HTTP/2, an error that connect-node 2.1.2 does not catch can end the process (connect-es issue 1768).
    httpVersion: "1.1",
    nodeOptions: { agent },
    defaultTimeoutMs: timeoutMs,
    readMaxBytes: MAX_ANSWER_BYTES,
    interceptors: [
      withRequestIds(randomUUID),
      repeatable,
      ...(retry ? [retrying()] : []),
      presentingToken(options.token),
      ...(options.interceptors ?? []),
      sayingWhatToDo(url),
    ],
  });
  return {
    userGroups: createClient(UserGroupService, transport),
    viewers: createClient(ViewerService, transport),
    admin: createClient(AdminService, transport),
    close: () => agent.destroy(),
  };
}

/** @throws TypeError when calls cannot be sent there */
function urlOf(given: string | URL): URL {
  const url = URL.canParse(String(given)) ? new URL(given) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new TypeError(`url must be that of the service, such as https://groups.example.com, not ${given}`);
  if (url.username || url.password || url.search || url.hash)
    throw new TypeError("url must have no password, query or fragment; the API token is given as token");
  return url;
}

const TLS_HINTS: TlsHints = {
  otherName: "use the name that it is for in the URL",
  clientCertificate: "give tls.cert and tls.key, of an authority that it trusts",
  authority: "give that authority as tls.ca, or start Node with NODE_EXTRA_CA_CERTS=FILE",
};

/**
 * The error of a call that the service did not answer, with what to do; its `cause` is what Node says. A connection that
 * fails or breaks, before the answer or within it, is `unavailable`.
 */
function unanswered(failure: ConnectError, url: URL): ConnectError {
  const found = connectionFaultOf(failure);
  if (found) {
    const [words, hint] = wordsOfFault(found, { url, hints: TLS_HINTS });
    return withText(`the User Group Service cannot be reached at ${url.href}: ${words}; ${hint}`, Code.Unavailable);
  }
  // The error of Node's streams when the connection broke.
  if (failure.code === Code.Aborted) return withText(failure.rawMessage, Code.Unavailable);
  if (failure.code !== Code.Unimplemented) return failure;
  return withText(
    `what answers at ${url.href} does not have this call: check the URL, its path included; a service that is older than this client lacks the newest calls`,
    failure.code,
  );

  function withText(text: string, code: Code) {
    return new ConnectError(text, code, failure.metadata, undefined, failure.cause ?? failure);
  }
}

/** Has the error of a call that did not reach the service say what to do. */
function sayingWhatToDo(url: URL): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      const failure = ConnectError.from(error);
      throw failureDetails(failure) ? failure : unanswered(failure, url);
    }
  };
}

/** Gives every change that takes one the request id that makes repeating it safe. */
const repeatable: Interceptor = (next) => (request) => next(request.stream ? request : withRequestId(request));

function withRequestId<Request extends Parameters<ReturnType<Interceptor>>[0] & { readonly stream: false }>(
  request: Request,
): Request {
  const { method, message } = request;
  if (!method.input.field["requestId"] || (message as { requestId?: string }).requestId) return request;
  // The message may be the caller's own.
  return { ...request, message: Object.assign(clone(method.input, message), { requestId: randomUUID() }) };
}
