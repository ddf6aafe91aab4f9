import type { Random } from "@user-group-service/testing/random";
import { pause } from "@user-group-service/testing/wait";
import { type Call, isOk } from "../history/call.ts";

const RETRIES = 6;

/**
 * Makes a change. Repeats the change with the same request id until an answer arrives, but makes at most six attempts.
 * Sometimes repeats the change even after an answer.
 *
 * @param attempt makes one attempt, which can consist of several concurrent calls
 */
export async function retry(random: Random, attempt: () => Promise<readonly Call[]>): Promise<void> {
  for (let tries = 0; tries < RETRIES; tries++) {
    const answers = await attempt();
    const isOver = answers.every(({ answer }) => answer.code !== "unavailable" && answer.reason !== undefined);
    if (isOver || (answers.some(isOk) && random.chance(0.5))) return;
    await pause(100 + random.below(300));
  }
}
