import type { Environment } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import type { Session } from "../session/session.ts";

const MAX_RESULTS = 10;

/** The maximum number of pages that a search by name reads. A page may be empty although later pages have matches. */
const MAX_PAGES = 20;

/** The delay between the last typed character and the search, in milliseconds. */
const PAUSE_MS = 150;

type Request = { readonly environment: Session["caller"]["environment"]; readonly text: string };

/**
 * Finds user groups whose id starts with the text, then user groups whose name contains the text.
 *
 * @throws ConnectError if a call fails
 */
export async function findGroups(admin: Session["admin"], { environment, text }: Request, signal: AbortSignal) {
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  signal.throwIfAborted();
  const [withPrefix, named] = await Promise.all([
    // The service sorts by id, so a group whose id equals the text comes first.
    admin.listUserGroups({ environment, providedIdPrefix: text, pageSize: MAX_RESULTS }, { signal }),
    namedGroups(admin, { environment, text }, signal),
  ]);
  const found = [...withPrefix.userGroups, ...named.groups];
  const groups = [...new Map(found.map((group) => [group.providedId, group])).values()];
  return { groups: groups.slice(0, MAX_RESULTS), isCut: named.isCut };
}

/** Finds user groups by name. If the search stopped at `MAX_PAGES`, sets `isCut`: further user groups may match. */
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

/** Returns the environments whose names contain a text. Ignores the case of letters. */
export function environmentsWith(environments: readonly Environment[], text: string): readonly Environment[] {
  const wanted = text.toLowerCase();
  const isFound = (each: Environment) => formatEnvironmentName(each).toLowerCase().includes(wanted);
  return environments.filter(isFound).slice(0, MAX_RESULTS);
}
