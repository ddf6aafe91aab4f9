import type { Random } from "@user-group-service/testing/random";
import { pause } from "@user-group-service/testing/wait";
import { type Call, isOk } from "../history/call.ts";

const RETRIES = 6;

/**
 * Repeats a change with the same request id until an answer arrives, at most six times. Sometimes also repeats the
 * change after an answer.
 *
 * @param attempt may make several concurrent calls
 */
export async function retry(random: Random, attempt: () => Promise<readonly Call[]>): Promise<void> {
  for (let tries = 0; tries < RETRIES; tries++) {
    const answers = await attempt();
    const isOver = answers.every(({ answer }) => answer.code !== "unavailable" && answer.reason !== undefined);
    if (isOver || (answers.some(isOk) && random.chance(0.5))) return;
    await pause(100 + random.below(300));
  }
}
