import { startProcess } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { MASTER } from "./redis-sentinel.ts";

/** Redis carries a planned failover out, or gives it up, within so many milliseconds. */
const GIVEN_UP_MS = 6000;

/**
 * Has a master that is well replaced as an operator does: by asking again when nothing comes of it. On a busy machine
 * Redis gives up some: in a Cluster when the replica has not caught up within 5 s.
 */
export async function planFailover(ask: () => Promise<void>, isReplaced: () => Promise<boolean>): Promise<void> {
  let askAgainAt = 0;
  await waitFor("another is the master", async () => {
    if (await isReplaced().catch(() => false)) return true;
    if (performance.now() < askAgainAt) return false;
    askAgainAt = performance.now() + GIVEN_UP_MS;
    // One that is under way refuses another.
    await ask().catch(() => undefined);
    return false;
  });
}

/** Runs the operators' script for a failover by Sentinels; what it wrote and its exit code. */
export async function failOverByScript(url: string, master = MASTER): Promise<{ code: number | null; output: string }> {
  const [, sentinel = ""] = /:\/\/([^,/]+)/.exec(url) ?? [];
  const script = startProcess(["scripts/sentinel-failover.sh", sentinel, master]);
  return { code: await script.exited(), output: script.output() };
}
