import { randomUUID } from "node:crypto";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextKey, type ContextValues } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import type { RefusedRequest } from "@user-group-service/transport";
import type { EnvironmentName as EnvironmentNameMessage } from "../../gen/usergroup/admin/v1/environment_pb.ts";
import type { Principal } from "../auth/api-tokens.ts";
import type { ChangeBy } from "../domain/audit.ts";
import { clientAddress, type Network, type Origin } from "../domain/client-address.ts";
import { type Environment, formatEnvironmentName, parseEnvironmentName } from "../domain/environment.ts";
import { MAX_ID_LENGTH } from "../domain/user-group.ts";
import { errorFields, type Logger, REDACTED, SESSION_IN_TEXT, TOKEN_IN_TEXT } from "../observability/log.ts";
import { type CallSeries, CODE_OK, type Metrics } from "../observability/metrics.ts";
import type { CallTrace, Traces } from "../observability/traces/traces.ts";
import type { UnknownCallers } from "../observability/unknown-callers.ts";
import { environmentNameFromMessage } from "./admin/messages.ts";
import { toCallError } from "./errors.ts";

/** The protocol of a call, as metrics name it. */
type WireProtocol = "grpc" | "grpc-web" | "connect" | "rest";

/** The header with the id of a request. A caller may send one; the response repeats it. */
export const REQUEST_ID_HEADER = "x-request-id";

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Codes that mean a fault of the server. */
const SERVER_FAULTS: ReadonlySet<Code> = new Set([Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable]);

/** What observes calls. */
export interface Observers {
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, "calls">;
  /** Omit to disable tracing. */
  readonly traces?: Pick<Traces, "begin"> | undefined;
  /** Counts failed calls whose caller is not authenticated. */
  readonly unknownCallers: Pick<UnknownCallers, "count">;
}

/** A request that becomes a call. */
type Begun = Pick<RefusedRequest, "method" | "header" | "arrived">;

/** What is known of a caller before it is authenticated. */
export interface Caller {
  readonly header: Headers;
  /** The address of its connection; empty when it is not known. Default: not known. */
  readonly peerAddress?: () => string;
}

/**
 * What the service knows of a call, in plain fields: the transport passes it on as the call's context values. It is
 * counted, timed and logged from `begin` to `end`. For a change it says who makes it, computed when it is asked: most
 * calls of GetUserGroup make none.
 */
export class ObservedCall implements ContextValues, ChangeBy {
  /** `none` for a request that is not a call. */
  readonly protocol: WireProtocol | "none";
  /** The name of the RPC; set by `begin`, like the id. */
  method = "";
  /** The id that the caller sent, which may hold a credential; a new one if it sent none, or an invalid one. */
  id = "";
  /** By `performance.now()`. */
  started = 0;
  /** The message of a unary request; undefined for a stream, and for a request that did not become a call. */
  input: Message | undefined = undefined;
  /** Whether the request is at fault, whatever the code. */
  isRefused = false;
  /** Whether authorization was asked for and let the call pass. */
  isAuthorized = false;
  /** Who is calling; set by authorization; undefined for a method that anyone may call. */
  principal: Principal | undefined = undefined;
  /** Whether GetUserGroup creates a group for the caller, or only looks for it; set by authorization. */
  mayCreate = false;
  /** Whether CreateViewerSession finds a group by its id for the caller, or by its token alone; set by authorization. */
  mayRead = false;
  /** The owner of the call's API token, for the log: also set when authorization denies the call. */
  bearer: Principal | undefined = undefined;
  /** Where the call comes from, and whom to believe about it; set by authorization. */
  origin: Caller | undefined = undefined;
  trustedProxies: readonly Network[] | undefined = undefined;
  /** Of a call that is sampled; set by `begin`. */
  trace: CallTrace | undefined = undefined;
  private observers: Observers | undefined = undefined;
  private series: CallSeries | undefined = undefined;
  private desc: DescMethod | undefined = undefined;

  constructor(protocol: ObservedCall["protocol"]) {
    this.protocol = protocol;
  }

  /** Counts the start of the call, and of each further one that an endpoint makes for the same request. */
  begin(observers: Observers, request: Begun): void {
    const { metrics, traces } = observers;
    const { method, header } = request;
    const given = header.get(REQUEST_ID_HEADER);
    this.id = given !== null && REQUEST_ID.test(given) ? given : randomUUID();
    this.method = method?.name ?? "";
    this.started = performance.now();
    this.isRefused = false;
    this.observers = observers;
    this.series = metrics.calls.begin(method, this.protocol);
    this.desc = method;
    if (traces) this.trace = this.beginTrace(traces, request);
  }

  /** Ends the call with a failure. @returns the error for the caller */
  fail(failure: unknown): ConnectError {
    const role = this.principal?.role;
    const error = toCallError(failure, { isForOperator: role === "admin" || role === "root" });
    error.metadata.set(REQUEST_ID_HEADER, this.id);
    this.end(error);
    return error;
  }

  /** Counts and logs the end of the call. @param output the message of a unary response */
  end(error: ConnectError | undefined, output?: Message): void {
    const seconds = (performance.now() - this.started) / 1000;
    this.series?.end(error ? (Code[error.code] ?? "Unknown") : CODE_OK, seconds);
    this.trace?.end(error && { code: error.code, codeName: codeToString(error.code) });
    const isFault = error !== undefined && SERVER_FAULTS.has(error.code) && !this.isRefused;
    if (!this.observers) return;
    const { logger, unknownCallers } = this.observers;
    // Anyone could fill the log with failures if each unauthenticated call had a line.
    const hasLine = isFault && (this.bearer !== undefined || unknownCallers.count(codeToString(error.code)));
    // Most calls are not logged, so their fields are put together only when they are.
    if (!(hasLine || logger.isLevelEnabled("debug"))) return;
    const method = this.desc;
    const peer = error && this.peer;
    const fields = {
      request_id: this.id,
      method: method ? `${method.parent.typeName}/${method.name}` : "none",
      protocol: this.protocol,
      code: error ? codeToString(error.code) : "ok",
      seconds,
      ...(this.trace && { trace_id: this.trace.traceId, span_id: this.trace.spanId }),
      ...this.callerFields(),
      ...this.groupFields(output),
      ...(error && { ...(peer && { peer }), ...errorFields(error.cause ?? error) }),
    };
    if (!hasLine) logger.debug(fields, isFault ? "call failed" : error ? "call refused" : "call");
    // An outage of Redis or its replicas mostly passes by itself; any other fault needs somebody to look at it.
    else if (error.code === Code.Unavailable) logger.warn(fields, "call failed");
    else logger.error(fields, "call failed");
  }

  /** Begins the trace of a call, unless it is one of those that monitors make all the time. */
  private beginTrace(traces: Pick<Traces, "begin">, { method, header, arrived }: Begun): CallTrace | undefined {
    if (!method || method.parent.typeName.startsWith("grpc.")) return undefined;
    const { id, environment } = this.bearer ?? {};
    const tracestate = header.get("tracestate");
    return traces.begin({
      service: method.parent.typeName,
      method: method.name,
      protocol: this.protocol,
      apiTokenId: id,
      environment: environment && formatEnvironmentName(environment),
      started: arrived,
      traceparent: header.get("traceparent"),
      // The collector would get it as it is.
      tracestate: tracestate !== null && withoutTokens(tracestate, header) === tracestate ? tracestate : null,
    });
  }

  /** What log lines tell of the caller: nothing when its API token is not known. None of it is secret. */
  callerFields() {
    if (!this.bearer) return {};
    const { id, displayName, environment = namedEnvironment(this.input) } = this.bearer;
    return {
      ...(environment && { environment: formatEnvironmentName(environment) }),
      api_token_id: id,
      api_token_name: displayName,
    };
  }

  /** Which group the call is about. Only for authorized callers: what a stranger claims is not logged. */
  private groupFields(output: Message | undefined) {
    if (!this.principal) return {};
    const asked = this.input as NamesGroup | undefined;
    const told = output as NamesGroup | undefined;
    const byId = asked?.group?.case === "userGroupId" ? asked.group.value : undefined;
    const id = asked?.userGroupId ?? byId ?? told?.userGroup?.providedId ?? told?.providedId;
    // A longer id was refused, and would only make the log longer.
    return typeof id === "string" && id !== "" && id.length <= MAX_ID_LENGTH ? { user_group_id: id } : {};
  }

  /** Who is calling. @throws ConnectError Internal when the call did not pass authentication */
  get caller(): Principal {
    if (!this.principal) throw new ConnectError("the call was not authenticated", Code.Internal);
    return this.principal;
  }

  /**
   * The environment that the caller's API token is bound to.
   *
   * @throws ConnectError Internal when the call did not pass authorization, which lets only such callers in
   */
  get environment(): Environment {
    const environment = this.principal?.environment;
    if (!environment) throw new ConnectError("the call was not authorized", Code.Internal);
    return environment;
  }

  get actorId(): string {
    return this.caller.id;
  }

  get actorName(): string {
    return this.caller.displayName;
  }

  get role(): Principal["role"] {
    return this.caller.role;
  }

  get requestId(): string {
    return this.origin ? withoutTokens(this.id, this.origin.header) : this.id;
  }

  get peer(): string {
    return this.origin ? clientAddress(originOf(this.origin), this.trustedProxies ?? []) : "";
  }

  // Values of others, by their keys, as Connect keeps them.

  get<T>(key: ContextKey<T>): T {
    return key.id in this ? ((this as unknown as { readonly [id: symbol]: T })[key.id] as T) : key.defaultValue;
  }

  set<T>(key: ContextKey<T>, value: T): this {
    return Object.assign(this, { [key.id]: value });
  }

  delete(key: ContextKey<unknown>): this {
    delete (this as unknown as { [id: symbol]: unknown })[key.id];
    return this;
  }
}

/** Fields that name a group, in whichever message they are. All other fields may hold a token, and are not looked at. */
interface NamesGroup {
  readonly userGroupId?: unknown;
  readonly providedId?: unknown;
  readonly group?: { readonly case?: unknown; readonly value?: unknown };
  readonly userGroup?: { readonly providedId?: unknown };
}

/** The environment that a request of root names; undefined when it names none, or the name is malformed. */
function namedEnvironment(input: Message | undefined) {
  const { environment } = (input ?? {}) as { readonly environment?: EnvironmentNameMessage };
  // One that is no name was refused, and may be anything.
  return environment && parseEnvironmentName(formatEnvironmentName(environmentNameFromMessage(environment)));
}

/** Makes what the transport passes on of a call. */
export function callValues(protocolName: string): ObservedCall {
  return new ObservedCall(protocolName as WireProtocol);
}

/** The call of context values. @throws ConnectError Internal when they are not those of a call of this service */
export function callOf(values: ContextValues): ObservedCall {
  if (values instanceof ObservedCall) return values;
  throw new ConnectError("the call was not authenticated", Code.Internal);
}

/** Where a call comes from, as far as it is known. */
export function originOf(caller: Caller): Origin {
  return { peer: caller.peerAddress?.() ?? "", forwardedFor: caller.header.get("x-forwarded-for") };
}

/** The headers that may carry the API token. The first one present is used. */
export const CREDENTIAL_HEADERS = ["authorization", "explo-authorization"] as const;

const SCHEME = /^(?:token|bearer) +([\x21-\x7e]+) *$/i;

/**
 * Parses the API token of an `Authorization` header: `Token TOKEN` or `Bearer TOKEN`; undefined when the header has
 * neither form.
 */
export function tokenFromHeader(value: string): string | undefined {
  return SCHEME.exec(value)?.[1];
}

/** Redacts tokens of this service, and the API token of the headers in any form, from a text that a caller sent. */
export function withoutTokens(text: string, header: Headers): string {
  const redacted = text.replace(TOKEN_IN_TEXT, REDACTED).replace(SESSION_IN_TEXT, REDACTED);
  for (const name of CREDENTIAL_HEADERS) {
    const token = tokenFromHeader(header.get(name) ?? "");
    if (token !== undefined && redacted.includes(token)) return redacted.replaceAll(token, REDACTED);
  }
  return redacted;
}
