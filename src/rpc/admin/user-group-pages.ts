import { type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import type { UserGroupRange } from "../../domain/store.ts";
import { MAX_ID_LENGTH } from "../../domain/user-group.ts";
import { pageRequest, type Scope } from "./pages.ts";

/** What a request for a page of user groups says. */
interface PageOfUserGroups {
  readonly pageSize: number;
  readonly pageToken: string;
  readonly providedIdPrefix: string;
}

/**
 * Reads which page of an environment's user groups is asked for.
 *
 * @param method that gives the pages
 * @throws InvalidPageToken, also for a token of another environment, prefix or method
 */
export function userGroupPage(
  method: string,
  environment: EnvironmentName,
  request: PageOfUserGroups,
): { readonly range: UserGroupRange; readonly scope: Scope } {
  const { providedIdPrefix: prefix } = request;
  const scope = [method, environmentPath(environment), prefix];
  const isKey = (id: string) => id !== "" && id.length <= MAX_ID_LENGTH && id.startsWith(prefix);
  return { range: { ...pageRequest(request, isKey, scope), prefix }, scope };
}
