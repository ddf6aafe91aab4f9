import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { type ImportResult, ImportResult_Outcome } from "../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { type Answer, type Call, groupOf, type Seen } from "../history/call.ts";
import type { Known } from "./known.ts";
import type { Worker } from "./workers.ts";

/** The parts of a group that every answer shows. */
export interface Shown {
  readonly providedId: string;
  readonly teamId: bigint;
  readonly name: string;
  readonly mapping: { readonly [key: string]: string };
  readonly token?: string;
  readonly etag?: string;
  readonly suspension?: object;
}

/** The mapping key that every change sets to the name. */
export const MAPPED = "mapped";

/** A call before it is sent. */
export type Asked = Pick<Call, "method" | "worker" | "environment" | "group"> & Partial<Call>;

/**
 * A call to a worker about a group.
 *
 * @param more fields that differ from the default
 */
export function requested<More extends Partial<Call>>(
  method: Call["method"],
  known: Known,
  worker: Worker,
  more: More,
) {
  const { environment, id } = known;
  return { method, worker: worker.name, environment, group: groupOf(environment, id), ...more };
}

/** The answer of a call. */
export interface Answered {
  /** Undefined: the call shows no group. */
  readonly shown: Shown | undefined;
  /** Whether the call created the group. */
  readonly created?: boolean | undefined;
}

/**
 * Makes a call and records its start, its end and its outcome.
 *
 * @param call receives a header with the id of the call
 */
export async function record(requested: Asked, call: (options: CallOptions) => Promise<Answered>): Promise<Call> {
  const [made] = await recordAll([requested], async (options) => [answerOf(await call(options))]);
  return made as Call;
}

/**
 * Like `record`, for a call about several groups.
 *
 * @param call returns the outcome for each group
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

/** Returns the outcome of the import of one group. */
export function importAnswer({ outcome, failure }: ImportResult): Answer {
  if (outcome === ImportResult_Outcome.TOKEN_NEWER)
    throw new Error("an import gave another token than the requested one");
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

/** Errors that prove that no worker has received the call. */
const NOT_TAKEN = /ECONNREFUSED|NGHTTP2_REFUSED_STREAM/;

function failureOf(thrown: unknown): Answer {
  const error = ConnectError.from(thrown);
  const [info] = error.findDetails(ErrorInfoSchema);
  const code = codeName(error.code);
  if (info) return { code, reason: info.reason, outcome: info.metadata["outcome"] };
  return { code, reason: undefined, outcome: NOT_TAKEN.test(error.rawMessage) ? "not_made" : undefined };
}

/** Returns Connect's name of the code. */
function codeName(code: Code): string {
  return (Code[code] ?? String(code)).replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
}
