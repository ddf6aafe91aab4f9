import { Option } from "commander";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type AuditEvent, AuditEventSchema } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { pagesOf } from "../../../operator/src/pages.ts";
import { countText } from "../../../operator/src/words.ts";
import { followEvents } from "../follow.ts";
import { columnsOf } from "../output/table.ts";
import { connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { countOf, type Options } from "./options.ts";
import { addInputs, type FieldInputs, FieldOption, inputsOf, requestOf } from "./rpc-command.ts";

/** The default of `--limit` without `--follow`. */
const DEFAULT_LIMIT = 50;
/** The default of `--limit` with `--follow`. */
const DEFAULT_BEFORE = 10;

const { input } = AdminService.method.listAuditEvents;

const FIELDS: FieldInputs = {
  user_group_id: new FieldOption("--group <id>", "only events of this user group, even if the group is deleted"),
  actor_id: new FieldOption("--actor <id>", "only changes by this actor: the id of an API token, `root` or `service`"),
  method: new FieldOption("--method <name>", "only changes by this RPC, such as UpdateUserGroup"),
  start_time: new FieldOption(
    "--since <when>",
    "only events since this time: a time, a date, or a duration before now such as 1h",
  ),
  end_time: new FieldOption(
    "--until <when>",
    "only events before this time: a time, a date, or a duration before now",
  ).conflicts("follow"),
};

export const auditCommand: DefineCommand = (audit, shell) => {
  addInputs(audit, input, FIELDS);
  audit
    .description("show the audit trail: changes and their actors; --follow shows new changes as they happen")
    .addOption(
      new Option(
        "--limit <n>",
        `the maximum number of events; default: ${DEFAULT_LIMIT}, or ${DEFAULT_BEFORE} with --follow`,
      ).argParser(countOf),
    )
    .option("-f, --follow", "show the last --limit events, oldest first, and then each new event");
  runs(audit, shell, async (session, options: Options & { readonly [option: string]: unknown }) => {
    const filter = await requestOf(session, input, inputsOf(input, FIELDS, options));
    const { admin } = await connect(session);
    const warn = (text: string) => session.out.note(text);
    const { signal } = shell;
    const list = (request: object) => admin.listAuditEvents(request);
    const pages = options.follow
      ? followEvents({ list, filter, shownFirst: options.limit ?? DEFAULT_BEFORE, signal, warn })
      : pagesOf(options.limit ?? DEFAULT_LIMIT, async (page) => {
          const { auditEvents, nextPageToken } = await admin.listAuditEvents({ ...filter, ...page });
          return { items: auditEvents, nextPageToken };
        });
    if (!(await session.out.list(AuditEventSchema, COLUMNS, pages))) session.out.note("No events were found.");
  });
};

function subject({ userGroupId, apiTokenId, apiTokenDisplayName, webhookId, exported }: AuditEvent): string {
  if (userGroupId !== "") return userGroupId;
  if (webhookId !== "") return webhookId;
  if (exported) {
    const { count, providedIdPrefix: prefix } = exported;
    return `${countText(count, "user group")}${prefix && `, ids starting with ${prefix}`}`;
  }
  return apiTokenDisplayName === "" ? apiTokenId : `${apiTokenId} (${apiTokenDisplayName})`;
}

const COLUMNS = columnsOf(AuditEventSchema, [
  "create_time",
  "method",
  { name: "SUBJECT", of: subject },
  "changed_fields",
  { name: "BY", of: ({ actorDisplayName, actorId }) => actorDisplayName || actorId, isFree: true },
]);
