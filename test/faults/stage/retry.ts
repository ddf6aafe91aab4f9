import type { Random } from "@user-group-service/testing/random";
import { pause } from "@user-group-service/testing/wait";
import { type Call, isOk } from "../history/call.ts";

/** Maximum number of retries of a change with its request id. */
const RETRIES = 6;

/**
 * Retries a change with its request id until an answer arrives. Sometimes repeats the request after the answer.
 *
 * @param attempt makes one or more calls at once
 */
export async function retry(random: Random, attempt: () => Promise<readonly Call[]>): Promise<void> {
  for (let tries = 0; tries < RETRIES; tries++) {
    const answers = await attempt();
    const isOver = answers.every(({ answer }) => answer.code !== "unavailable" && answer.reason !== undefined);
    if (isOver || (answers.some(isOk) && random.chance(0.5))) return;
    await pause(100 + random.below(300));
  }
}
