import { startProcess } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { MASTER } from "./redis-sentinel.ts";

/** Time in milliseconds. If a planned failover has not finished after this time, Redis has certainly canceled it. */
const GIVEN_UP_MS = 6000;

/**
 * Makes a replica the master through a planned failover. If Redis cancels the failover, starts it again. A Cluster
 * cancels a failover if the replica does not catch up within 5 s, which can happen on a busy machine.
 */
export async function planFailover(ask: () => Promise<void>, isReplaced: () => Promise<boolean>): Promise<void> {
  let askAgainAt = 0;
  await waitFor("another node is the master", async () => {
    if (await isReplaced().catch(() => false)) return true;
    if (performance.now() < askAgainAt) return false;
    askAgainAt = performance.now() + GIVEN_UP_MS;
    // Redis refuses a second failover while the first is in progress.
    await ask().catch(() => undefined);
    return false;
  });
}

export async function failOverByScript(url: string, master = MASTER): Promise<{ code: number | null; output: string }> {
  const [, sentinel = ""] = /:\/\/([^,/]+)/.exec(url) ?? [];
  const script = startProcess(["scripts/sentinel-failover.sh", sentinel, master]);
  return { code: await script.exited(), output: script.output() };
}
