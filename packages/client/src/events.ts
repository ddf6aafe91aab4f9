import timers from "node:timers/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError } from "@connectrpc/connect";
import {
  type AdminService,
  WatchEventsRequest_Start as Start,
  type WatchEventsRequestSchema,
  type WatchEventsResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { failureDetails } from "./failure.ts";
import { pauseBeforeRetry } from "./retry.ts";

/**
 * Maximum pause between two attempts to connect, in milliseconds. If the service requests a pause, `watchEvents` adds
 * that pause.
 */
const MAX_PAUSE_MS = 30_000;

/**
 * The service sends a response at least every 15 seconds. If no response arrives within this time, in milliseconds,
 * `watchEvents` treats the connection as lost, and connects again.
 */
const SILENCE_MS = 60_000;

/** Codes of temporary failures that the service reports. */
const TEMPORARY: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
  Code.Aborted,
]);

/** If an error does not come from the service, these codes can mean that the connection broke. */
const BROKEN: ReadonlySet<Code> = new Set([...TEMPORARY, Code.Canceled, Code.Unknown, Code.Internal]);

/** Options of `watchEvents`. */
export interface WatchOptions {
  /** If this signal is aborted, the iteration ends, and throws no error. Default: none. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called after a temporary failure, before `watchEvents` pauses and connects again. If this function throws an error,
   * the iteration ends with this error. Default: none.
   */
  readonly onRetry?: (failure: ConnectError, pauseMs: number) => void;
}

/**
 * Iterates over the events of an environment. If the stream ends or breaks, `watchEvents` connects again and continues
 * after the last cursor. Store the `cursor` of each response after you have processed the response, and pass the stored
 * cursor at the next start. If `content` is not set, the response contains only a new cursor.
 *
 * `for await (const { cursor, content } of watchEvents(service.admin, { cursor: stored })) …`
 *
 * Throws a `ConnectError` if a failure is permanent, for example if the API token has expired, was revoked, or does not
 * have the role `admin`. If the reason is `EVENT_CURSOR_EXPIRED`, start again with `START_SNAPSHOT`.
 */
export async function* watchEvents(
  admin: Pick<Client<typeof AdminService>, "watchEvents">,
  request: MessageInitShape<typeof WatchEventsRequestSchema> & { readonly $typeName?: undefined },
  { signal, onRetry }: WatchOptions = {},
): AsyncGenerator<WatchEventsResponse, void, undefined> {
  let next = request;
  for (let failures = 0; ; ) {
    let hasResponse = false;
    const silence = new AbortController();
    const limit = () => setTimeout(() => silence.abort(), SILENCE_MS);
    let timer = limit();
    const signals = signal ? [signal, silence.signal] : [silence.signal];
    try {
      // `timeoutMs: 0` means that the call has no deadline.
      for await (const response of admin.watchEvents(next, { signal: AbortSignal.any(signals), timeoutMs: 0 })) {
        clearTimeout(timer);
        hasResponse = true;
        failures = 0;
        next = { ...request, start: Start.UNSPECIFIED, cursor: response.cursor };
        yield response;
        timer = limit();
      }
      if (signal?.aborted) return;
      if (!hasResponse) throw new ConnectError("the stream ended without a response", Code.Unavailable);
    } catch (error) {
      if (signal?.aborted) return;
      const failure = ConnectError.from(error);
      if (!(failureDetails(failure) ? TEMPORARY : BROKEN).has(failure.code)) throw failure;
      const pauseMs = pauseBeforeRetry(failure, failures++, MAX_PAUSE_MS);
      onRetry?.(failure, pauseMs);
      await timers.setTimeout(pauseMs, undefined, { signal }).catch(() => {});
      if (signal?.aborted) return;
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }
}
