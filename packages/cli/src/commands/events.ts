import { watchEvents } from "@user-group-service/client";
import {
  WatchEventsRequest_StartSchema,
  WatchEventsResponseSchema,
} from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { enumValue } from "../../../operator/src/fields.ts";
import { callFailure } from "../connection/call-failure.ts";
import { connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOf, environmentOption, type Options } from "./options.ts";

export const eventsCommand: DefineCommand = (events, shell) => {
  events
    .description("write the changes of an environment as JSON, one object per line, for other systems")
    .addOption(environmentOption())
    .option(
      "--from <where>",
      "where to start: `beginning`, `now`, `snapshot` (all user groups first), or the cursor of an earlier line; default: `beginning`, or `now` with --follow",
    )
    .option("-f, --follow", "wait for new events, and connect again if the connection is lost");
  runs(events, shell, async (session, { env, from, follow = false }: Options & { readonly from?: string }) => {
    const where = from ?? (follow ? "now" : "beginning");
    const start = enumValue(WatchEventsRequest_StartSchema, where);
    const environment = environmentOf(session, { env });
    const { admin, connection } = await connect(session);
    const { signal } = shell;
    let cursor: string | undefined;
    const request = { ...(environment && { environment }), ...(start ? { start } : { cursor: where }) };
    try {
      const responses = watchEvents(admin, request, {
        signal,
        onRetry(failure) {
          // If no event has arrived yet, do not retry, because the URL may be wrong.
          if (cursor === undefined) throw failure;
          session.out.note(`${failure.message}. Retrying until the service is back.`);
        },
      });
      for await (const response of responses) {
        ({ cursor } = response);
        if (response.content.case !== undefined) await session.out.message(WatchEventsResponseSchema, response);
        else if (!follow) break;
      }
    } catch (error) {
      throw callFailure(error, connection, { mayRepeat: true, onlyReads: true });
    } finally {
      if (cursor !== undefined) session.out.note(`To continue: --from ${cursor}`);
    }
    if (signal.aborted) throw signal.reason;
  });
};
