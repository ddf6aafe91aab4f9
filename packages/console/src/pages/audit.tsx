import { useRef, useState } from "preact/hooks";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type AuditEvent, AuditEventSchema } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { limitOf } from "../../../operator/src/fields.ts";
import { useFollowing } from "../audit/use-following.ts";
import { useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { columnsFor } from "../parts/message.tsx";
import { Page } from "../parts/page.tsx";
import { type Column, ListTable, Table } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { countText, timeIn } from "../words.ts";

/** The filters, by their names in the address, which are those of the options of `ugs audit`. */
const FILTERS = {
  group: { field: "user_group_id", label: "User group", hint: "Its id. It may be deleted." },
  actor: { field: "actor_id", label: "Done by", hint: "The id of an API token, root, or service." },
  method: { field: "method", label: "Method", hint: "The RPC, such as UpdateUserGroup." },
  since: { field: "start_time", label: "Since", hint: "A time, a date, or a duration ago such as 1h." },
  until: { field: "end_time", label: "Until", hint: "As for Since. Not used while following." },
} as const;

type FilterName = keyof typeof FILTERS;
const NAMES = Object.keys(FILTERS) as FilterName[];

type Filters = { readonly [name in FilterName]: string };

/** The filters that an address has. */
function filtersIn(params: Params): Filters {
  return Object.fromEntries(NAMES.map((name) => [name, params[name] ?? ""])) as Filters;
}

/** The request for the filters. @throws InvalidInput for an invalid time */
function requestOf({ group, actor, method, since, until }: Filters) {
  return {
    userGroupId: group,
    actorId: actor,
    method,
    startTime: since === "" ? undefined : timeIn(FILTERS.since.label, since, -1),
    endTime: until === "" ? undefined : timeIn(FILTERS.until.label, until, -1),
  };
}

/** The audit trail of an environment. */
export function AuditPage({ params }: { readonly params: Params }) {
  const { number, env } = useSession();
  const filters = filtersIn(params);
  const [typed, setTyped] = useTyped(filters);
  const [isFollowed, setFollowed] = useState(false);
  const filter = async () => {
    const given = Object.fromEntries(NAMES.map((name) => [name, typed[name].trim()])) as Filters;
    requestOf(given);
    setFollowed(false);
    go(hrefOf("audit", { env, ...given }));
    return undefined;
  };
  const follow = (
    <button type="button" onClick={() => setFollowed(!isFollowed)}>
      {isFollowed ? "Stop following" : "Follow"}
    </button>
  );
  return (
    <Page title="Audit">
      <Form label="Filter events" submit="Show" act={filter} beside={follow}>
        <div class="columns">
          {NAMES.map((name) => (
            <TextField
              key={name}
              label={FILTERS[name].label}
              hint={FILTERS[name].hint}
              value={typed[name]}
              onValue={(value) => setTyped({ ...typed, [name]: value })}
              maxLength={limitOf(AdminService.method.listAuditEvents, FILTERS[name].field)}
            />
          ))}
        </div>
      </Form>
      {isFollowed ? (
        <Followed filters={filters} key={JSON.stringify([number, filters])} />
      ) : (
        <Trail filters={filters} />
      )}
      <CommandLine
        command="audit"
        options={[
          ...NAMES.flatMap((name) =>
            filters[name] && !(isFollowed && name === "until") ? [`--${name}`, filters[name]] : [],
          ),
          isFollowed ? "--follow" : undefined,
        ]}
        env={env}
      />
    </Page>
  );
}

function Trail({ filters }: { readonly filters: Filters }) {
  const { admin, environment, env } = useSession();
  // A time such as `2h` is relative to the first page, so further pages need the same request.
  const request = useRef<ReturnType<typeof requestOf>>();
  const list = useList(`audit ${JSON.stringify(filters)}`, "event", async (pageToken, signal) => {
    if (pageToken === "" || !request.current) request.current = requestOf(filters);
    const page = await admin.listAuditEvents({ environment, ...request.current, pageToken }, { signal });
    return { items: page.auditEvents, nextPageToken: page.nextPageToken };
  });
  const isFiltered = NAMES.some((name) => filters[name] !== "");
  return (
    <ListTable
      list={list}
      none={isFiltered ? "No event matches the filter." : "There are no events yet."}
      caption={isFiltered ? "Events of this filter, newest first" : "All events, newest first"}
      keyOf={({ id }) => id}
      columns={columnsOf(env)}
    />
  );
}

/** How many of the present events are shown first when a trail is followed. */
const FIRST = 10;
function Followed({ filters }: { readonly filters: Filters }) {
  const { admin, environment, env } = useSession();
  const { events, isPaused, error, hasEnded } = useFollowing(() => {
    const filter = { environment, ...requestOf(filters), endTime: undefined };
    return { list: (request, signal) => admin.listAuditEvents(request, { signal }), filter, shownFirst: FIRST };
  });
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
          columns={columnsOf(env)}
        />
      )}
    </>
  );
}

function columnsOf(env: string | undefined): readonly Column<AuditEvent>[] {
  return [
    ...columnsFor(AuditEventSchema, ["create_time", "method"]),
    {
      name: "Subject",
      of: ({ userGroupId, apiTokenId, apiTokenDisplayName, apiTokenRole, exported }) => {
        if (userGroupId) return <a href={hrefOf("group", { env, id: userGroupId })}>{userGroupId}</a>;
        if (apiTokenId)
          return (
            <>
              <a href={hrefOf("token", { env, id: apiTokenId })}>{apiTokenId}</a> {apiTokenDisplayName}{" "}
              {apiTokenRole && `(${apiTokenRole})`}
            </>
          );
        if (!exported) return "the environment";
        const prefix = exported.providedIdPrefix;
        return `${countText(exported.count, "user group")}${prefix && `, ids starting with ${prefix}`}`;
      },
    },
    ...columnsFor(AuditEventSchema, ["changed_fields"]),
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
