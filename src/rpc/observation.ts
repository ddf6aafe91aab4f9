import type { Message } from "@bufbuild/protobuf";
import { Code, type ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { headerValue } from "@user-group-service/transport";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { formatEnvironmentName } from "../domain/environment.ts";
import { MAX_ID_LENGTH } from "../domain/user-group.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import { type CallSeries, CODE_OK, type Metrics } from "../observability/metrics.ts";
import type { CallTrace, Traces } from "../observability/traces/traces.ts";
import { type CallContext, REQUEST_ID_HEADER } from "./call-context.ts";
import { withoutTokens } from "./credentials.ts";
import { toCallError } from "./errors.ts";

const SERVER_FAULTS: ReadonlySet<Code> = new Set([Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable]);

/** The logger, metrics and traces that record calls. */
export interface Observers {
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, "calls" | "environments" | "overloaded">;
  /** Omit to disable tracing. */
  readonly traces?: Pick<Traces, "begin"> | undefined;
  /** Returns whether a failed call of an unauthenticated client gets a log line. @param code the code of the error */
  readonly mayLogUnknown: (code: string) => boolean;
}

/** Counts, measures, logs and traces one call from its start to its end. */
export class Observation {
  /** Whether the request caused the failure. Such a failure is never logged as a server fault. */
  isRequestFault = false;
  // CallContext explains why these fields are not `#` fields.
  private readonly observers: Observers;
  private readonly call: CallContext;
  private readonly started: number;
  private readonly series: CallSeries;

  /** Counts the start of a call. @param started the start time, from `performance.now()` */
  constructor(observers: Observers, call: CallContext, started = performance.now()) {
    this.observers = observers;
    this.call = call;
    this.started = started;
    this.series = observers.metrics.calls.begin(call.received.method, call.protocol);
    if (observers.traces) call.trace = beginTrace(observers.traces, call);
  }

  fail(failure: unknown): ConnectError {
    const role = this.call.principal?.role;
    const error = toCallError(failure, { isForOperator: role === "admin" || role === "root" });
    error.metadata.set(REQUEST_ID_HEADER, this.call.id);
    this.end(error);
    return error;
  }

  /** Counts and logs the end of the call. @param output the response message of a unary call */
  end(error: ConnectError | undefined, output?: Message): void {
    const call = this.call;
    const { logger, metrics, mayLogUnknown } = this.observers;
    const seconds = (performance.now() - this.started) / 1000;
    const reason = error && reasonOf(error);
    const bucket = this.series.end(error ? (Code[error.code] ?? "Unknown") : CODE_OK, seconds, reason);
    const environment = call.bearer?.environment;
    if (environment) metrics.environments.count(environment, bucket, reason);
    call.trace?.end(error && { code: error.code, codeName: codeToString(error.code) });
    const isFault = error !== undefined && SERVER_FAULTS.has(error.code) && !this.isRequestFault;
    // `mayLogUnknown` limits the log lines of unauthenticated clients, so that these clients cannot fill the log.
    const hasLine = isFault && (call.bearer !== undefined || mayLogUnknown(codeToString(error.code)));
    if (!(hasLine || logger.isLevelEnabled("debug"))) return;
    const { method } = call.received;
    const peer = error && call.peer;
    const fields = {
      method: method ? `${method.parent.typeName}/${method.name}` : "none",
      protocol: call.protocol,
      code: error ? codeToString(error.code) : "ok",
      seconds,
      ...(call.trace && { trace_id: call.trace.traceId, span_id: call.trace.spanId }),
      ...call.logFields(),
      ...groupFields(call, output),
      ...(error && { ...(peer && { peer }), ...errorFields(error.cause ?? error) }),
    };
    if (!hasLine) logger.debug(fields, isFault ? "call failed" : error ? "call refused" : "call");
    // Log only a warning. Unavailable usually means that Redis is down, and most outages end without an operator's
    // help.
    else if (error.code === Code.Unavailable) logger.warn(fields, "call failed");
    else logger.error(fields, "call failed");
  }
}

/**
 * Returns the reason of an error. If the error has no reason, returns the code of the error. For example, failures of
 * the transport in a stream have no reason.
 */
function reasonOf({ code, details }: ConnectError): string {
  for (const detail of details)
    if ("desc" in detail && detail.desc === ErrorInfoSchema) return (detail.value as { reason: string }).reason;
  return codeToString(code).toUpperCase();
}

/** Begins the trace of a sampled call. Health checks, reflection, and requests of unknown methods have no traces. */
function beginTrace(traces: Pick<Traces, "begin">, { bearer, protocol, received }: CallContext): CallTrace | undefined {
  const { method, headers, arrived } = received;
  if (!method || method.parent.typeName.startsWith("grpc.")) return undefined;
  const { id, environment } = bearer ?? {};
  const tracestate = headerValue(headers, "tracestate");
  return traces.begin({
    service: method.parent.typeName,
    method: method.name,
    protocol,
    apiTokenId: id,
    environment: environment && formatEnvironmentName(environment),
    started: arrived,
    traceparent: headerValue(headers, "traceparent"),
    // Never send a token to the collector.
    tracestate: tracestate !== null && withoutTokens(tracestate, headers) === tracestate ? tracestate : null,
  });
}

/** The fields that identify a group in a message. The log omits all other fields, because they may contain tokens. */
interface NamesGroup {
  readonly userGroupId?: unknown;
  readonly providedId?: unknown;
  readonly group?: { readonly case?: unknown; readonly value?: unknown };
  readonly userGroup?: { readonly providedId?: unknown };
}

/**
 * Returns the id of the group of a call as a log field. Omits the id if the call has no authenticated caller, because
 * an unauthenticated client could send any id.
 */
function groupFields({ principal, input }: CallContext, output: Message | undefined) {
  if (!principal) return {};
  const request = input as NamesGroup | undefined;
  const response = output as NamesGroup | undefined;
  const byId = request?.group?.case === "userGroupId" ? request.group.value : undefined;
  const id = request?.userGroupId ?? byId ?? response?.userGroup?.providedId ?? response?.providedId;
  // Omit an id that is too long. Validation refuses a request with such an id.
  return typeof id === "string" && id !== "" && id.length <= MAX_ID_LENGTH ? { user_group_id: id } : {};
}
