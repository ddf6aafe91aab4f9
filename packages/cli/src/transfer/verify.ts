import { type PatienceOptions, patiently } from "./patience.ts";
import type { SeenIds } from "./seen-ids.ts";
import type { Target } from "./target.ts";

/** How to look for groups that only the service has. */
interface OnlyHereOptions extends PatienceOptions {
  /** The prefix of the ids. */
  readonly prefix: string;
  readonly onFound: (providedId: string) => Promise<void>;
}

/** Finds the groups that the service has and that were not seen, in the order of their ids. @returns how many */
export async function findOnlyHere(
  { admin, environment }: Target,
  seen: SeenIds,
  options: OnlyHereOptions,
): Promise<number> {
  let found = 0;
  let pageToken = "";
  do {
    const request = {
      ...(environment && { environment }),
      pageSize: 1000,
      providedIdPrefix: options.prefix,
      pageToken,
    };
    const page = await patiently(options, () => admin.listUserGroups(request));
    for (const { providedId } of page.userGroups) {
      if (seen.has(providedId)) continue;
      found += 1;
      await options.onFound(providedId);
    }
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return found;
}
