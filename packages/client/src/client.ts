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

/**
 * Default time limit of a call, in milliseconds. The limit includes the retries of the call and the pauses between
 * them.
 */
export const DEFAULT_TIMEOUT_MS = 10_000;

/**
 * Maximum number of connections to the service. If all connections are in use, a new call waits for a free connection.
 */
const MAX_CONNECTIONS = 100;

/** Maximum size of a response, in bytes. The largest responses are pages of user groups, with a few MiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Options of a client. */
export interface ClientOptions {
  /** URL of the service, such as `https://groups.example.com`. The URL may have a path. */
  readonly url: string | URL;
  /** The API token, or a function that returns the token. */
  readonly token: TokenSource;
  /**
   * Time limit of a call, in milliseconds. The limit includes retries. A call can override the limit. Default: 10,000.
   */
  readonly timeoutMs?: number;
  /** Whether the client repeats failed calls, see `retrying`. Default: true. */
  readonly retry?: boolean;
  /** Certificates in PEM. Default: the CA certificates of Node, and no client certificate. */
  readonly tls?: {
    /** CA certificates that verify the certificate of the service. */
    readonly ca?: string | Buffer;
    readonly cert?: string | Buffer;
    readonly key?: string | Buffer;
  };
  /**
   * An agent of `node:http` or `node:https`, for example an agent that connects through a proxy. If `agent` is set,
   * `tls` must not be set. Default: a new agent.
   */
  readonly agent?: HttpAgent;
  /**
   * Interceptors, for example for logs or traces. The interceptors run for each attempt of a call, including retries.
   * The first interceptor is the outermost.
   */
  readonly interceptors?: readonly Interceptor[];
}

/**
 * Clients of the services. If a call fails, the call throws a `ConnectError`. `reasonOf` returns the reason of this
 * error.
 */
export interface UserGroupServiceClient {
  /** Creates, gets and updates user groups, and rotates their tokens. */
  readonly userGroups: Client<typeof UserGroupService>;
  /** Creates viewer sessions, and resolves tokens and sessions to user groups. */
  readonly viewers: Client<typeof ViewerService>;
  /** Manages environments, API tokens and webhooks. Needs an API token of role `admin`, or `ADMIN_TOKEN`. */
  readonly admin: Client<typeof AdminService>;
  /** Closes the connections. Calls in flight fail. */
  close(): void;
}

/**
 * Creates a client of the service. Create one client per process, because a client keeps connections open.
 *
 * @throws TypeError if an option is invalid
 */
export function createUserGroupServiceClient(options: ClientOptions): UserGroupServiceClient {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, retry = true, tls = {} } = options;
  const url = urlOf(options.url);
  if (!(timeoutMs > 0)) throw new TypeError(`timeoutMs must be a positive number of milliseconds, not ${timeoutMs}`);
  for (const [name, pem] of Object.entries(tls))
    if (pem !== undefined && !String(pem).includes("-----BEGIN "))
      throw new TypeError(`tls.${name} must be the content of a PEM file, such as readFileSync(path), not its path`);
  if (options.agent && options.tls)
    throw new TypeError("tls and agent cannot be combined: give the certificates to the agent");
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

function urlOf(given: string | URL): URL {
  const url = URL.canParse(String(given)) ? new URL(given) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new TypeError(`url must be the URL of the service, such as https://groups.example.com, not ${given}`);
  if (url.username || url.password || url.search || url.hash)
    throw new TypeError("url must have no password, query or fragment; to set the API token, use the option `token`");
  return url;
}

const TLS_HINTS: TlsHints = {
  otherName: "use the name of the certificate in the URL",
  clientCertificate: "set tls.cert and tls.key to a certificate of a CA that the service trusts",
  authority: "set tls.ca to the certificate of that CA, or start Node with NODE_EXTRA_CA_CERTS=FILE",
};

/**
 * Replaces an error that does not come from the service. The message of the new error describes the fault and the
 * remedy. The `cause` of the new error is the error of Node. If the connection failed or broke, the code of the new
 * error is `unavailable`.
 */
function unanswered(failure: ConnectError, url: URL): ConnectError {
  const found = connectionFaultOf(failure);
  if (found) {
    const [words, hint] = wordsOfFault(found, { url, hints: TLS_HINTS });
    return withText(`the User Group Service cannot be reached at ${url.href}: ${words}; ${hint}`, Code.Unavailable);
  }
  // connect-node reports a broken connection with this code.
  if (failure.code === Code.Aborted) return withText(failure.rawMessage, Code.Unavailable);
  if (failure.code !== Code.Unimplemented) return failure;
  return withText(
    `the server at ${url.href} does not have this method: check the URL and its path; if they are right, the service is older than this client`,
    failure.code,
  );

  function withText(text: string, code: Code) {
    return new ConnectError(text, code, failure.metadata, undefined, failure.cause ?? failure);
  }
}

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

/** If a request has an empty field `requestId`, sets this field to a new id, so that the call is safe to repeat. */
const repeatable: Interceptor = (next) => (request) => {
  if (request.stream) return next(request);
  const { method, message } = request;
  if (!method.input.field["requestId"] || (message as { requestId?: string }).requestId) return next(request);
  // The message may belong to the caller, so change a clone.
  return next({ ...request, message: Object.assign(clone(method.input, message), { requestId: randomUUID() }) });
};
