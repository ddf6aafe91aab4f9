import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import type { Answer, Call, Seen } from "../history/call.ts";

/** What any answer shows of a group. */
interface Shown {
  readonly providedId: string;
  readonly teamId: bigint;
  readonly name: string;
  readonly mapping: { readonly [key: string]: string };
  readonly token?: string;
  readonly etag?: string;
}

/** The key of the mapping that every change sets to the name. */
export const MAPPED = "mapped";

/** A call before it is made. */
export type Asked = Pick<Call, "method" | "worker" | "environment" | "group"> & Partial<Call>;

/**
 * Makes a call and notes when it began, when it ended and how.
 *
 * @param call is given the header with its id; answers what the group is shown as; and, of a Get, whether it was created
 */
export async function record(
  asked: Asked,
  call: (options: CallOptions) => Promise<{ shown: Shown | undefined; created?: boolean }>,
): Promise<Call> {
  const start = performance.now();
  const id = crypto.randomUUID();
  const answer = await call({ headers: { "x-request-id": id } }).then(
    ({ shown, created = false }): Answer => ({ code: "ok", created, seen: seenOf(shown) }),
    (error: unknown) => failureOf(error),
  );
  return { ...asked, id, start, end: performance.now(), answer };
}

function seenOf(shown: Shown | undefined): Seen {
  if (!shown) throw new Error("an answer shows no group");
  const { providedId, teamId, name, mapping, token, etag } = shown;
  return { id: providedId, teamId: Number(teamId), name, mapped: mapping[MAPPED] ?? "", token, etag };
}

/** What tells that a worker has not so much as looked at a call. */
const NOT_TAKEN = /ECONNREFUSED|NGHTTP2_REFUSED_STREAM/;

function failureOf(thrown: unknown): Answer {
  const error = ConnectError.from(thrown);
  const [info] = error.findDetails(ErrorInfoSchema);
  const code = (Code[error.code] ?? String(error.code)).replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
  if (info) return { code, reason: info.reason, outcome: info.metadata["outcome"] };
  return { code, reason: undefined, outcome: NOT_TAKEN.test(error.rawMessage) ? "not_made" : undefined };
}
