import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { useRef, useState } from "preact/hooks";
import type { AuditEvent } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { type AuditReader, MAX_READ } from "../audit/follower.ts";
import { useFollowing } from "../audit/use-following.ts";
import { useAction, useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { Page } from "../parts/page.tsx";
import { type Column, ListTable, Table } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import { go, hrefOf, type Params } from "../routes.ts";
import { environmentOf, environmentParamOf, type Session } from "../session/session.ts";
import { parseWhen } from "../when.ts";
import { countText, timeText } from "../words.ts";
import type { PageOfConsole, PageProps } from "./page.ts";

/** The audit trail of an environment, looked through or followed. */
export const auditPage: PageOfConsole = { path: "audit", link: "Audit", isOfEnvironment: true, show: Audit };

/** The filters, by their names in the address, which are those of the options of `ugs audit`. */
const FILTERS = {
  group: { label: "User group", hint: "Its id. It may be deleted." },
  actor: { label: "Done by", hint: "The id of an API token, root, or service." },
  method: { label: "Method", hint: "The RPC, such as UpdateUserGroup." },
  since: { label: "Since", hint: "A time, a date, or a duration ago such as 1h." },
  until: { label: "Until", hint: "As for Since. Not used while following." },
} as const;

type FilterName = keyof typeof FILTERS;
const NAMES = Object.keys(FILTERS) as FilterName[];

type Filters = { readonly [name in FilterName]: string };

/** The filters that an address has. */
function filtersIn(params: Params): Filters {
  return Object.fromEntries(NAMES.map((name) => [name, params[name] ?? ""])) as Filters;
}

/** The request for the filters. @throws NotRight for an invalid time */
function requestOf(session: Session, { group, actor, method, since, until }: Filters) {
  return {
    environment: environmentOf(session),
    userGroupId: group,
    actorId: actor,
    method,
    startTime: since === "" ? undefined : parseWhen(FILTERS.since.label, since, -1),
    endTime: until === "" ? undefined : parseWhen(FILTERS.until.label, until, -1),
  };
}

function Audit({ session, params }: PageProps) {
  const filters = filtersIn(params);
  const [typed, setTyped] = useTyped(filters);
  const [isFollowed, setFollowed] = useState(false);
  const env = environmentParamOf(session);
  const filtering = useAction(async () => {
    const given = Object.fromEntries(NAMES.map((name) => [name, typed[name].trim()])) as Filters;
    requestOf(session, given);
    setFollowed(false);
    go(hrefOf("audit", { ...env, ...given }));
    return undefined;
  });
  return (
    <Page title="Audit">
      <Form
        label="Filter events"
        submit="Show"
        action={filtering}
        onSubmit={() => void filtering.run()}
        beside={
          <button type="button" onClick={() => setFollowed(!isFollowed)}>
            {isFollowed ? "Stop following" : "Follow"}
          </button>
        }
      >
        <div class="columns">
          {NAMES.map((name) => (
            <TextField
              key={name}
              {...FILTERS[name]}
              value={typed[name]}
              onValue={(value) => setTyped({ ...typed, [name]: value })}
              maxLength={256}
            />
          ))}
        </div>
      </Form>
      {isFollowed ? (
        <Followed session={session} filters={filters} key={JSON.stringify([session.number, filters])} />
      ) : (
        <Trail session={session} filters={filters} />
      )}
      <CommandLine
        command="audit"
        options={[
          ...NAMES.flatMap((name) =>
            filters[name] && !(isFollowed && name === "until") ? [`--${name}`, filters[name]] : [],
          ),
          isFollowed ? "--follow" : undefined,
        ]}
        {...env}
      />
    </Page>
  );
}

interface TrailProps {
  readonly session: Session;
  readonly filters: Filters;
}

function Trail({ session, filters }: TrailProps) {
  // A time such as `2h` counts back from the first page: further pages need the same request.
  const request = useRef<ReturnType<typeof requestOf>>();
  const list = useList(`audit ${JSON.stringify(filters)}`, "event", async (pageToken, signal) => {
    if (pageToken === "" || !request.current) request.current = requestOf(session, filters);
    const page = await session.admin.listAuditEvents({ ...request.current, pageToken }, { signal });
    return { items: page.auditEvents, nextPageToken: page.nextPageToken };
  });
  const isFiltered = NAMES.some((name) => filters[name] !== "");
  return (
    <ListTable
      list={list}
      none={isFiltered ? "No event matches the filter." : "There are no events yet."}
      caption={isFiltered ? "Events of this filter, newest first" : "All events, newest first"}
      keyOf={({ id }) => id}
      columns={columnsOf(session)}
    />
  );
}

/** How many of the present events are shown first when a trail is followed. */
const FIRST = 10;
/** The largest page that the service gives. */
const PAGE_SIZE = 1000;

/** The reader of an environment's audit trail, for `useFollowing`. */
function readerOf({ admin }: Session, { endTime: _, ...request }: ReturnType<typeof requestOf>): AuditReader {
  const { environment } = request;
  return {
    newest: async (signal) => (await admin.listAuditEvents({ environment, pageSize: 1 }, { signal })).auditEvents[0],
    last: async (signal) => (await admin.listAuditEvents({ ...request, pageSize: FIRST }, { signal })).auditEvents,
    since: async (startTime, signal) => {
      const found: AuditEvent[] = [];
      const from = later(startTime, request.startTime);
      let pageToken = "";
      do {
        const page = await admin.listAuditEvents(
          { ...request, startTime: from, pageSize: PAGE_SIZE, pageToken },
          { signal },
        );
        found.push(...page.auditEvents);
        pageToken = page.nextPageToken;
      } while (pageToken !== "" && found.length < MAX_READ);
      return found;
    },
  };
}

function later(a: Timestamp, b: Timestamp | undefined): Timestamp {
  return b && (b.seconds > a.seconds || (b.seconds === a.seconds && b.nanos > a.nanos)) ? b : a;
}

function Followed({ session, filters }: TrailProps) {
  const [reader] = useState(() => readerOf(session, requestOf(session, filters)));
  const { events, isPaused, error, hasEnded } = useFollowing(reader);
  return (
    <>
      <p class="small">
        {isPaused
          ? "Paused while the page is hidden."
          : "New events appear at the top until the session ends. It also ends after 15 minutes without activity."}
      </p>
      <FailureBox error={error} />
      {error !== undefined && (
        <p>{hasEnded ? "Following has stopped." : "The page retries until the service answers."}</p>
      )}
      {!events && error === undefined && <p>Reading …</p>}
      {events?.length === 0 && <p>No event matches the filter yet.</p>}
      {events && events.length > 0 && (
        <Table
          caption="Events as they arrive, newest first"
          items={events}
          keyOf={({ id }) => id}
          columns={columnsOf(session)}
        />
      )}
    </>
  );
}

function columnsOf(session: Session): readonly Column<AuditEvent>[] {
  const env = environmentParamOf(session);
  return [
    { name: "Time", isHeading: true, of: ({ createTime }) => timeText(createTime) },
    { name: "Method", of: ({ method }) => method },
    {
      name: "Subject",
      of: ({ userGroupId, apiTokenId, apiTokenDisplayName, apiTokenRole, exported }) => {
        if (userGroupId) return <a href={hrefOf("group", { ...env, id: userGroupId })}>{userGroupId}</a>;
        if (apiTokenId)
          return (
            <>
              <a href={hrefOf("token", { ...env, id: apiTokenId })}>{apiTokenId}</a> {apiTokenDisplayName}{" "}
              {apiTokenRole && `(${apiTokenRole})`}
            </>
          );
        if (!exported) return "the environment";
        const prefix = exported.providedIdPrefix;
        return `${countText(exported.count, "user group")}${prefix && `, ids starting with ${prefix}`}`;
      },
    },
    { name: "Changed", of: ({ changedFields }) => changedFields.join(", ") },
    {
      name: "By",
      of: ({ actorId, actorDisplayName, role }) =>
        `${actorDisplayName && actorDisplayName !== actorId ? `${actorDisplayName}, ` : ""}${actorId} (${role})`,
    },
    {
      name: "Request",
      of: ({ requestId, peerAddress }) => (
        <>
          {peerAddress} <code class="small">{requestId}</code>
        </>
      ),
    },
  ];
}
