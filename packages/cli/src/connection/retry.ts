import { setTimeout } from "node:timers/promises";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { isNeverSent } from "./node-errors.ts";

/** How often a call is tried at most, and the pauses between, in milliseconds. */
const MAX_TRIES = 4;
const FIRST_PAUSE_MS = 100;

/** Methods that change nothing, or nothing more when they are called again with the same message. */
const REPEATABLE: ReadonlySet<string> = new Set([
  "Check",
  "GetCaller",
  "GetEnvironment",
  "ListEnvironments",
  "ListApiTokens",
  "LookupApiToken",
  "ListUserGroups",
  "LookupUserGroup",
  "ListAuditEvents",
  "ExportUserGroups",
  "ImportUserGroups",
  "ListTokenKeys",
  "ReencryptUserGroupTokens",
  "RetireTokenKey",
  "ListSigningKeys",
  "ResolveViewer",
  // A session whose answer was lost is nobody's, and ends by itself.
  "CreateViewerSession",
  "RevokeViewerSessions",
  // It creates the group, or finds what the first call has created.
  "GetUserGroup",
]);

/** Whether a method may be called again, whatever became of the first call. @param name of the RPC */
export function isRepeatable(name: string): boolean {
  return REPEATABLE.has(name);
}

/** Reasons of refusals before anything was done. */
const NOTHING_DONE: ReadonlySet<string> = new Set(["OVERLOADED", "RATE_LIMITED"]);

/** Tries a call again where that is safe, within its deadline. */
export const retrying: Interceptor = (next) => async (request) => {
  const { requestId = "" } = request.message as { requestId?: string };
  const mayRepeat = isRepeatable(request.method.name) || requestId !== "";
  for (let tries = 1; ; tries++) {
    try {
      return await next(request);
    } catch (error) {
      const pauseMs = pauseAfter(error, mayRepeat, tries);
      if (pauseMs === undefined || tries === MAX_TRIES || request.signal.aborted) throw error;
      // The deadline ends the pause as well; then what the service said is worth more than that it passed.
      await setTimeout(pauseMs, undefined, { signal: request.signal }).catch(() => {
        throw error;
      });
    }
  }
};

/** How long to wait before a call that failed is tried again, in milliseconds; undefined: it must not be. */
function pauseAfter(error: unknown, mayRepeat: boolean, tries: number): number | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const pauseMs = FIRST_PAUSE_MS * 2 ** (tries - 1) * (0.5 + Math.random());
  if (isNeverSent(error)) return error.code === Code.Unavailable ? pauseMs : undefined;
  const info = error.findDetails(ErrorInfoSchema)[0];
  if (NOTHING_DONE.has(info?.reason ?? "")) return Math.max(pauseMs, retryAfterMs(error));
  if (error.code === Code.Unavailable)
    return mayRepeat || info?.metadata["outcome"] === "not_made" ? pauseMs : undefined;
  // The connection broke before the answer.
  return error.code === Code.Aborted && !info && mayRepeat ? pauseMs : undefined;
}

/** What the service asks callers to wait, in milliseconds. */
export function retryAfterMs(error: ConnectError): number {
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  if (delay) return Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  const seconds = Number(error.metadata.get("retry-after") ?? 0);
  return Number.isFinite(seconds) ? seconds * 1000 : 0;
}
