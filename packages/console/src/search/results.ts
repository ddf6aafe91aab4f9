import { Code, ConnectError } from "@connectrpc/connect";
import type { Environment } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { itemsOf } from "../../../operator/src/pages.ts";
import type { Session } from "../session/session.ts";

/** The maximum number of results of each kind. */
const MAX_RESULTS = 10;

/** The maximum number of calls for one text. A filter by name can return empty pages. */
const MAX_PAGES = 20;

/** The pause before a search, in milliseconds. Further typing within it replaces the search. */
const PAUSE_MS = 150;

type Request = { readonly environment: Session["caller"]["environment"]; readonly text: string };

/**
 * Finds user groups by their id, a prefix of their id, or a part of their name, in this order.
 *
 * @throws ConnectError
 */
export async function findGroups(
  admin: Session["admin"],
  { environment, text }: Request,
  signal: AbortSignal,
): Promise<UserGroupInfo[]> {
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  signal.throwIfAborted();
  const byPrefix = admin.listUserGroups({ environment, providedIdPrefix: text, pageSize: MAX_RESULTS }, { signal });
  const found = await Promise.all([
    groupOf(admin, { environment, text }, signal),
    byPrefix.then(({ userGroups }) => userGroups),
    namedGroups(admin, { environment, text }, signal),
  ]);
  const byId = new Map(found.flat().map((group) => [group.providedId, group]));
  return [...byId.values()].slice(0, MAX_RESULTS);
}

/** The user group with an id, if there is one. */
async function groupOf(admin: Session["admin"], { environment, text }: Request, signal: AbortSignal) {
  try {
    const { userGroup } = await admin.lookupUserGroup({ environment, userGroupId: text }, { signal });
    return userGroup ? [userGroup] : [];
  } catch (error) {
    if (ConnectError.from(error).code === Code.NotFound) return [];
    throw error;
  }
}

/** The first user groups whose names contain a text. */
async function namedGroups(admin: Session["admin"], { environment, text }: Request, signal: AbortSignal) {
  const found: UserGroupInfo[] = [];
  let pageToken = "";
  for (let pages = 0; pages < MAX_PAGES && found.length < MAX_RESULTS; pages++) {
    const request = { environment, nameContains: text, pageSize: MAX_RESULTS, pageToken };
    const { userGroups, nextPageToken } = await admin.listUserGroups(request, { signal });
    found.push(...userGroups);
    pageToken = nextPageToken;
    if (pageToken === "") break;
  }
  return found;
}

/** Reads all environments. @throws ConnectError */
export function allEnvironments(
  admin: Pick<Session["admin"], "listEnvironments">,
  signal: AbortSignal,
): Promise<Environment[]> {
  return itemsOf(undefined, async (page) => {
    const { environments: items, nextPageToken } = await admin.listEnvironments(page, { signal });
    return { items, nextPageToken };
  });
}

/** The environments whose names contain a text. The case is ignored. */
export function environmentsWith(environments: readonly Environment[], text: string): readonly Environment[] {
  const wanted = text.toLowerCase();
  const isFound = (each: Environment) => formatEnvironmentName(each).toLowerCase().includes(wanted);
  return environments.filter((each) => !each.deleteTime && isFound(each)).slice(0, MAX_RESULTS);
}
