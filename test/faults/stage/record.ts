import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { type ImportResult, ImportResult_Outcome } from "../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { type Answer, type Call, groupOf, type Seen } from "../history/call.ts";
import type { Known } from "./known.ts";
import type { Worker } from "./workers.ts";

/** A group in an answer. The answers of some methods do not contain the optional fields. */
export interface Shown {
  readonly providedId: string;
  readonly teamId: bigint;
  readonly name: string;
  readonly mapping: { readonly [key: string]: string };
  readonly token?: string;
  readonly etag?: string;
  readonly suspension?: object;
}

/** Key in the mapping. Every change sets the value of this key to the group's name. */
export const MAPPED = "mapped";

/** The request of a call. The answer and the times are added later. */
export type Asked = Pick<Call, "method" | "worker" | "environment" | "group"> & Partial<Call>;

export function requested<More extends Partial<Call>>(
  method: Call["method"],
  known: Known,
  worker: Worker,
  more: More,
) {
  const { environment, id } = known;
  return { method, worker: worker.name, environment, group: groupOf(environment, id), ...more };
}

export interface Answered {
  /** Undefined if the answer contains no group. */
  readonly shown: Shown | undefined;
  readonly created?: boolean | undefined;
}

/**
 * Makes a call, and records the start, the end and the outcome of the call.
 *
 * @param call makes the call with the given options, which contain the request id
 */
export async function record(requested: Asked, call: (options: CallOptions) => Promise<Answered>): Promise<Call> {
  const [made] = await recordAll([requested], async (options) => [answerOf(await call(options))]);
  return made as Call;
}

/**
 * Makes and records one call that concerns several groups. The history contains one entry per group.
 *
 * @param call makes the call, and returns one answer per group
 */
export async function recordAll(
  requested: readonly Asked[],
  call: (options: CallOptions) => Promise<readonly Answer[]>,
): Promise<readonly Call[]> {
  const start = performance.now();
  const id = crypto.randomUUID();
  const answers = await call({ headers: { "x-request-id": id } }).catch((error: unknown) => {
    const failure = failureOf(error);
    return requested.map(() => failure);
  });
  const end = performance.now();
  return requested.map((each, i) => {
    const answer = answers[i];
    if (!answer || (answer.code === "ok" && !answer.seen && !SHOWS_NOTHING.has(each.method))) {
      throw new Error("an answer shows no group");
    }
    return { ...each, id, start, end, answer };
  });
}

const SHOWS_NOTHING: ReadonlySet<Call["method"]> = new Set(["delete", "import"]);

/** Returns the answer for one group of an import. */
export function importAnswer({ outcome, failure }: ImportResult): Answer {
  if (outcome === ImportResult_Outcome.TOKEN_NEWER)
    throw new Error("an import kept a newer token instead of the requested token");
  if (!failure) return { code: "ok", created: outcome === ImportResult_Outcome.CREATED };
  return { code: codeName(failure.code), reason: failure.reason, outcome: failure.outcome || undefined };
}

function answerOf({ shown, created = false }: Answered): Answer {
  return shown ? { code: "ok", created, seen: seenOf(shown) } : { code: "ok", created };
}

function seenOf(shown: Shown): Seen {
  const { providedId, teamId, name, mapping, token, etag, suspension } = shown;
  const values = { id: providedId, teamId: Number(teamId), name, mapped: mapping[MAPPED] ?? "" };
  return { ...values, token: token || undefined, etag, isSuspended: suspension !== undefined };
}

/** Matches an error only if it proves that no worker has received the call. */
const NOT_TAKEN = /ECONNREFUSED|NGHTTP2_REFUSED_STREAM/;

function failureOf(thrown: unknown): Answer {
  const error = ConnectError.from(thrown);
  const [info] = error.findDetails(ErrorInfoSchema);
  const code = codeName(error.code);
  if (info) return { code, reason: info.reason, outcome: info.metadata["outcome"] };
  return { code, reason: undefined, outcome: NOT_TAKEN.test(error.rawMessage) ? "not_made" : undefined };
}

/** Returns the name of the code in Connect, such as `not_found`. */
function codeName(code: Code): string {
  return (Code[code] ?? String(code)).replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
}
