import { Option } from "commander";
import { type AuditEvent, AuditEventSchema } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { followEvents } from "../follow.ts";
import type { Column } from "../output/table.ts";
import { timeText } from "../output/words.ts";
import { pagesOf } from "../pages.ts";
import { connect } from "../session.ts";
import { timeOf } from "../times.ts";
import { type DefineCommand, runs } from "./command.ts";
import { countOf, type EnvironmentOption, environmentOf, environmentOption } from "./options.ts";

/** How many events are shown by default, of a trail and before one is followed. */
const DEFAULT_LIMIT = 50;
const DEFAULT_BEFORE = 10;

/** `ugs audit` */
export const auditCommand: DefineCommand = (audit, shell) => {
  audit
    .option("--group <id>", "only events of this user group, also of one that is gone")
    .option("--actor <id>", "only what was done with the API token of this id, or by `root` or `service`")
    .option("--method <name>", "only what was done by this RPC, such as UpdateUserGroup")
    .option("--since <when>", "only events since a time, a date, or a duration ago such as 1h")
    .addOption(new Option("--until <when>", "only events before a time, a date, or a duration ago").conflicts("follow"))
    .addOption(new Option("--limit <n>", `at most so many; default: ${DEFAULT_LIMIT}`).argParser(countOf))
    .option("-f, --follow", `show the last ${DEFAULT_BEFORE} or --limit, the oldest first, and then each new one`)
    .addOption(environmentOption());
  runs(audit, shell, async (session, options: AuditOptions) => {
    const filter = {
      environment: environmentOf(session, options),
      userGroupId: options.group,
      actorId: options.actor,
      method: options.method,
      startTime: options.since === undefined ? undefined : timeOf("--since", options.since, -1),
      endTime: options.until === undefined ? undefined : timeOf("--until", options.until, -1),
    };
    const { admin } = await connect(session);
    const read = async (request: object) => {
      const { auditEvents, nextPageToken } = await admin.listAuditEvents({ ...filter, ...request });
      return { items: auditEvents, nextPageToken };
    };
    const { environment } = filter;
    const newest = async () => (await admin.listAuditEvents({ environment, pageSize: 1 })).auditEvents[0];
    const warn = (text: string) => session.out.note(text);
    const pages = options.follow
      ? followEvents({ read, newest, shownFirst: options.limit ?? DEFAULT_BEFORE, signal: shell.signal, warn })
      : pagesOf(options.limit ?? DEFAULT_LIMIT, read);
    await session.out.list(AuditEventSchema, COLUMNS, pages);
  });
};

interface AuditOptions extends EnvironmentOption {
  readonly group?: string;
  readonly actor?: string;
  readonly method?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit?: number;
  readonly follow?: boolean;
}

/** What an event is about: a group, an API token, or the environment itself. */
function subject({ userGroupId, apiTokenId, apiTokenDisplayName }: AuditEvent): string {
  if (userGroupId !== "") return userGroupId;
  return apiTokenDisplayName === "" ? apiTokenId : `${apiTokenId} (${apiTokenDisplayName})`;
}

const COLUMNS: readonly Column<AuditEvent>[] = [
  { name: "TIME", of: ({ createTime }) => timeText(createTime) },
  { name: "METHOD", of: ({ method }) => method },
  { name: "SUBJECT", of: subject },
  { name: "CHANGED", of: ({ changedFields }) => changedFields.join(","), isFree: true },
  { name: "BY", of: ({ actorDisplayName, actorId }) => actorDisplayName || actorId, isFree: true },
];
