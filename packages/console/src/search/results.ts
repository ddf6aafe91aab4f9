import { Code, ConnectError } from "@connectrpc/connect";
import type { Environment } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { itemsOf } from "../../../operator/src/pages.ts";
import type { Session } from "../session/session.ts";

const MAX_RESULTS = 10;

/** The maximum number of pages that a search by name reads. Pages that are filtered by name may be empty. */
const MAX_PAGES = 20;

/** The pause before a search, in milliseconds. If the user types again during the pause, the search does not start. */
const PAUSE_MS = 150;

type Request = { readonly environment: Session["caller"]["environment"]; readonly text: string };

export interface FoundGroups {
  readonly groups: readonly UserGroupInfo[];
  /** Whether the search stopped before it had compared the names of all user groups. */
  readonly isCut: boolean;
}

/**
 * Finds user groups. If an id equals the text, this group comes first. Groups whose ids start with the text follow.
 * Groups whose names contain the text come last.
 *
 * @throws ConnectError if a call fails
 */
export async function findGroups(
  admin: Session["admin"],
  { environment, text }: Request,
  signal: AbortSignal,
): Promise<FoundGroups> {
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  signal.throwIfAborted();
  const byPrefix = admin.listUserGroups({ environment, providedIdPrefix: text, pageSize: MAX_RESULTS }, { signal });
  const [byId, withPrefix, named] = await Promise.all([
    groupOf(admin, { environment, text }, signal),
    byPrefix,
    namedGroups(admin, { environment, text }, signal),
  ]);
  const found = [...byId, ...withPrefix.userGroups, ...named.groups];
  const groups = [...new Map(found.map((group) => [group.providedId, group])).values()];
  return { groups: groups.slice(0, MAX_RESULTS), isCut: named.isCut };
}

async function groupOf(admin: Session["admin"], { environment, text }: Request, signal: AbortSignal) {
  try {
    const { userGroup } = await admin.lookupUserGroup({ environment, userGroupId: text }, { signal });
    return userGroup ? [userGroup] : [];
  } catch (error) {
    if (ConnectError.from(error).code === Code.NotFound) return [];
    throw error;
  }
}

async function namedGroups(admin: Session["admin"], { environment, text }: Request, signal: AbortSignal) {
  const groups: UserGroupInfo[] = [];
  let pageToken = "";
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const request = { environment, nameContains: text, pageSize: MAX_RESULTS, pageToken };
    const { userGroups, nextPageToken } = await admin.listUserGroups(request, { signal });
    groups.push(...userGroups);
    pageToken = nextPageToken;
    if (pageToken === "" || groups.length >= MAX_RESULTS) return { groups, isCut: false };
  }
  return { groups, isCut: true };
}

export function allEnvironments(
  admin: Pick<Session["admin"], "listEnvironments">,
  signal: AbortSignal,
): Promise<Environment[]> {
  return itemsOf(undefined, async (page) => {
    const { environments: items, nextPageToken } = await admin.listEnvironments(page, { signal });
    return { items, nextPageToken };
  });
}

/** Returns the environments whose names contain a text. Ignores the case of letters. */
export function environmentsWith(environments: readonly Environment[], text: string): readonly Environment[] {
  const wanted = text.toLowerCase();
  const isFound = (each: Environment) => formatEnvironmentName(each).toLowerCase().includes(wanted);
  return environments.filter((each) => !each.deleteTime && isFound(each)).slice(0, MAX_RESULTS);
}
