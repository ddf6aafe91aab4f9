import { ENVIRONMENTS_KEY, FORMAT_KEY, TOKEN_KEYS_KEY } from "./keys.ts";
import { CLAIM } from "./records.ts";
import { StoreMisconfigured } from "./redis/answers.ts";
import type { StoreClient } from "./redis/client.ts";

/** The number of the layout that this release reads and writes; a release that changes the layout takes the next one. */
export const LAYOUT = "2";

/** What every release before layouts had numbers left in Redis. */
const FIRST_LAYOUT = "1";

/**
 * Checks whether what Redis holds has the layout of this release, and notes the layout where Redis holds nothing yet.
 *
 * @param wasChecked whether it was checked before: Redis has then lost the number with all else, and it is noted again
 * @throws StoreMisconfigured when it has another; StoreUnavailable; TooFewReplicas
 */
export async function checkFormat(client: StoreClient, wasChecked: boolean): Promise<void> {
  // Before the number: who finds these without it knows that no worker of this release has just made them.
  const isUsed = !wasChecked && (await holdsData(client));
  let found = await client.run("format", "get", [FORMAT_KEY]);
  if (found === null && isUsed) found = FIRST_LAYOUT;
  // Another worker may start meanwhile, even one of another release.
  if (found === null)
    [, , found = ""] = await client.change("format", CLAIM, { key: FORMAT_KEY, text: LAYOUT, lastsMs: 0 });
  if (found === LAYOUT) return;
  const writer = Number(found) > Number(LAYOUT) ? "a later" : "an earlier";
  throw new StoreMisconfigured(
    `this Redis holds data of ${writer} release, in layout ${found}; this release has layout ${LAYOUT} and would not find it. ` +
      "Start the release that wrote it, export its groups (ExportUserGroups), and import them (ImportUserGroups) with this release into an empty Redis or another database; or check REDIS_URL",
  );
}

async function holdsData(client: StoreClient): Promise<boolean> {
  const [keys, environments] = await Promise.all([
    client.run("format", "hgetall", [TOKEN_KEYS_KEY]),
    client.run("format", "zrangebylex", [ENVIRONMENTS_KEY, "-", "+", "LIMIT", 0, 1]),
  ]);
  return Object.keys(keys).length > 0 || environments.length > 0;
}
