import { Code, ConnectError } from "@connectrpc/connect";
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type AuditEvent, AuditEventSchema } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { auditFollower, followPauseMs } from "../../../operator/src/audit-follower.ts";
import { InvalidInput, timeIn } from "../../../operator/src/input.ts";
import { countText } from "../../../operator/src/words.ts";
import { useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { announce } from "../parts/live.tsx";
import { columnsFor } from "../parts/message.tsx";
import { Page } from "../parts/page.tsx";
import { type Column, ListTable } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import { Id, Visible } from "../parts/visible.tsx";
import { useWatched } from "../parts/watch.ts";
import { go, hrefOf, type Params } from "../routes.ts";
import { failureOf } from "../session/failures.ts";
import { useSession } from "../session/session.ts";

/** The filters of the audit trail. The URL parameter and the option of `ugs audit` have the same name as the key. */
const FILTERS = {
  group: { label: "User group", hint: "The id of a user group, even of a deleted group." },
  actor: { label: "Done by", hint: "An API token id, root (ADMIN_TOKEN), or service." },
  method: { label: "Method", hint: "The RPC, such as UpdateUserGroup." },
  since: { label: "Since", hint: "A time, a date, or a duration such as 1h before now." },
  until: {
    label: "Until",
    hint: "As in Since. Ignored while you follow events.",
  },
} as const;

type FilterName = keyof typeof FILTERS;
const NAMES = Object.keys(FILTERS) as FilterName[];

type Filters = { readonly [name in FilterName]: string };

function filtersIn(params: Params): Filters {
  return Object.fromEntries(NAMES.map((name) => [name, params[name] ?? ""])) as Filters;
}

/** @throws InvalidInput if a time is not valid */
function requestOf({ group, actor, method, since, until }: Filters) {
  return {
    userGroupId: group,
    actorId: actor,
    method,
    startTime: since === "" ? undefined : timeIn(FILTERS.since.label, since, -1),
    endTime: until === "" ? undefined : timeIn(FILTERS.until.label, until, -1),
  };
}

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
      <section class="card filters">
        <Form label="Filter events" submit="Show" act={filter} beside={follow}>
          <div class="columns">
            {NAMES.map((name) => (
              <TextField
                key={name}
                label={FILTERS[name].label}
                hint={FILTERS[name].hint}
                value={typed[name]}
                onValue={(value) => setTyped({ ...typed, [name]: value })}
              />
            ))}
          </div>
        </Form>
      </section>
      <section class="card">
        {isFollowed ? (
          <Followed filters={filters} key={JSON.stringify([number, filters])} />
        ) : (
          <Trail filters={filters} />
        )}
        <CommandLine
          command="audit"
          options={{ ...filters, until: isFollowed ? undefined : filters.until, follow: isFollowed }}
        />
      </section>
    </Page>
  );
}

function Trail({ filters }: { readonly filters: Filters }) {
  const { admin, environment, env } = useSession();
  // `requestOf` converts a duration such as `2h` to a time before now, so its result changes with time. All pages of
  // the list must have the same filter, so the later pages use the filter of the first page.
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
      caption={isFiltered ? "Events that match the filter, newest first" : "All events, newest first"}
      keyOf={({ id }) => id}
      columns={columnsOf(env)}
    />
  );
}

/** The number of past events that the page shows when the user starts to follow the audit trail. */
const FIRST = 10;

/** The maximum number of shown events. Hundreds of thousands of events may occur while the page is hidden. */
const MAX_EVENTS = 500;

/** Shows new events as they arrive. Retries while the service is unavailable. */
function Followed({ filters }: { readonly filters: Filters }) {
  const { admin, environment, env } = useSession();
  const next = useRef<ReturnType<typeof auditFollower>>();
  const {
    value: events,
    isPaused,
    error,
  } = useWatched<readonly AuditEvent[]>(
    "followed",
    async (signal, before) => {
      next.current ??= auditFollower({
        list: (request, abort) => admin.listAuditEvents(request, { signal: abort }),
        filter: { environment, ...requestOf(filters), endTime: undefined },
        shownFirst: FIRST,
        maxEvents: MAX_EVENTS,
      });
      const found = await next.current(signal);
      signal.throwIfAborted();
      if (before.error !== undefined) announce("The service answers again.");
      if (before.value && found.length > 0) announce(countText(found.length, "new event"));
      return [...found, ...(before.value ?? [])].slice(0, MAX_EVENTS);
    },
    (failures, reason) => (failures === 0 || isTemporary(reason) ? followPauseMs(failures) : undefined),
  );
  return (
    <>
      <p class="small">
        {isPaused
          ? "Paused while the page is hidden."
          : "New events appear at the top until your session ends. A session ends after 15 minutes without activity."}
      </p>
      <FailureBox error={error} isRead />
      {error !== undefined && (
        <p>{isTemporary(error) ? "The page retries until the service answers." : "Following has stopped."}</p>
      )}
      <ListTable
        list={{ items: events, isBusy: error === undefined, error: undefined }}
        none="No event matches the filter yet."
        caption="Events as they arrive, newest first"
        keyOf={({ id }) => id}
        columns={columnsOf(env)}
      />
    </>
  );
}

/** Returns whether the same call may succeed later. */
function isTemporary(error: unknown): boolean {
  if (error instanceof InvalidInput) return false;
  const { code } = ConnectError.from(error);
  return failureOf(error).kind === undefined || code === Code.Unavailable || code === Code.ResourceExhausted;
}

function columnsOf(env: string | undefined): readonly Column<AuditEvent>[] {
  return [
    ...columnsFor(AuditEventSchema, ["create_time"]),
    {
      name: "Event",
      of: ({ method, changedFields }) => <TwoLines first={method} second={changedFields.join(", ")} />,
    },
    {
      name: "Subject",
      of: ({ userGroupId, apiTokenId, apiTokenDisplayName, apiTokenRole, webhookId, exported }) => {
        if (userGroupId) return <Id id={userGroupId} href={hrefOf("group", { env, id: userGroupId })} />;
        if (apiTokenId)
          return (
            <TwoLines
              first={<a href={hrefOf("token", { env, id: apiTokenId })}>{apiTokenId}</a>}
              second={[apiTokenDisplayName, apiTokenRole].filter(Boolean).join(", ")}
            />
          );
        if (webhookId) return <a href={hrefOf("webhook", { env, id: webhookId })}>{webhookId}</a>;
        if (!exported) return "the environment";
        const prefix = exported.providedIdPrefix;
        return (
          <Visible text={`${countText(exported.count, "user group")}${prefix && `, ids starting with ${prefix}`}`} />
        );
      },
    },
    {
      name: "By",
      of: ({ actorId, actorDisplayName, role }) => {
        // For ADMIN_TOKEN, the name, the id and the role may be equal. The set removes repeated texts.
        const [first, ...rest] = new Set([actorDisplayName || actorId, actorId, role]);
        return <TwoLines first={first} second={rest.join(", ")} />;
      },
    },
    {
      name: "Request",
      of: ({ requestId, peerAddress }) => <TwoLines first={peerAddress} second={requestId} isId />,
    },
  ];
}

/** @param isId whether `second` is an id. An id must not be broken across lines */
function TwoLines({
  first,
  second,
  isId = false,
}: {
  readonly first: ComponentChildren;
  readonly second: string;
  readonly isId?: boolean;
}) {
  return (
    <>
      {typeof first === "string" ? <Visible text={first} /> : first}
      {second !== "" && (
        <>
          <br />
          <span class={isId ? "small id" : "small"}>
            <Visible text={second} />
          </span>
        </>
      )}
    </>
  );
}
